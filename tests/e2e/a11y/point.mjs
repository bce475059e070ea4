// Points at bars of a timeline; gives what the page says of each. `places` are [lane, bar].
export async function pointedAt(page, places) {
  const found = [];
  for (const [lane, bar] of places) {
    const at = await page.evaluate((lane, bar) => {
      const { timeline } = window, run = timeline.lanes[lane].run;
      timeline.focus({ run, i: bar });
      timeline.draw();
      return timeline.place(timeline.lanes[lane], bar);
    }, lane, bar);
    await page.mouse.move(at.x, at.y);
    found.push(await page.evaluate(() =>
      [...document.querySelectorAll("#tip strong, #tip dd")].map((each) => each.textContent)));
  }
  return found;
}
