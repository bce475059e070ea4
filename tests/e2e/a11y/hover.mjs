// Points at bars of a timeline and prints, as JSON, what the page says of each.
// usage: node hover.mjs CHROMIUM PROFILE_DIRECTORY PAGE PLACES   (a JSON list of [lane, bar])
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, profile, file, places] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: profile,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const found = [];
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 1200 });
  await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
  await page.waitForSelector("html.drawn");
  for (const [lane, bar] of JSON.parse(places)) {
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
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
