// Opens a timeline in headless Chromium and prints, as JSON, how quick it is and what it says.
// usage: node timeline.mjs CHROMIUM DIRECTORY PAGE PLACES   (a JSON list of [lane, bar])
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { pointedAt } from "./point.mjs";

const [chromium, directory, file, places] = process.argv.slice(2);
const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const url = pathToFileURL(file).href;
const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: `${directory}/profile`,
  protocolTimeout: 300_000,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
const result = { overflow: [], serious: "" };
let asked = 0;

async function opened(width) {
  const page = await browser.newPage();
  await page.setViewport({ width, height: 1600 });
  page.on("request", (request) => (asked += request.url() !== url));
  await page.evaluateOnNewDocument(() => {
    new MutationObserver(() => {
      if (!window.drawnMs && document.documentElement?.classList.contains("drawn"))
        requestAnimationFrame(() => (window.drawnMs ||= performance.now()));
    }).observe(document, { attributes: true, subtree: true, childList: true });
  });
  await page.goto(url, { waitUntil: "load" });
  await page.waitForFunction(() => window.drawnMs);
  return page;
}

// While every frame shows a later moment: the longest time between two of them, and the CPU time of
// the page's thread for each, which other work on the machine does not change.
async function panned(page, share) {
  const session = await page.createCDPSession();
  await session.send("Performance.enable", { timeDomain: "threadTicks" });
  const used = async () => (await session.send("Performance.getMetrics")).metrics
    .find(({ name }) => name === "TaskDuration").value * 1e3;
  const before = await used(), frames = await framesOf(page, share);
  return { longest_ms: Math.max(...frames), cpu_ms: ((await used()) - before) / frames.length };
}

const framesOf = (page, share) => page.evaluate(async (share) => {
  const { timeline } = window, frames = [];
  const whole = timeline.shown.to, span = whole * share;
  const frame = () => new Promise(requestAnimationFrame);
  timeline.look(0, span);
  await frame();
  let before = await frame();
  for (let i = 1; i <= 60; i++) {
    timeline.look((i * (whole - span)) / 60, (i * (whole - span)) / 60 + span);
    const now = await frame();
    frames.push(now - before);
    before = now;
  }
  timeline.look(0, whole);
  return frames;
}, share);

try {
  const page = await opened(1280);
  result.drawn_ms = await page.evaluate(() => window.drawnMs);
  result.paint_ms = await page.evaluate(
    () => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  result.whole = await panned(page, 0.8);
  result.near = await panned(page, 0.02);
  result.seen = await pointedAt(page, JSON.parse(places));
  await page.close();
  for (const width of [400, 1280, 2560]) {
    const page = await opened(width);
    result.overflow.push([width, await page.evaluate(() =>
      document.scrollingElement.scrollWidth - document.documentElement.clientWidth)]);
    await page.screenshot({ path: file.replace(".html", `-${width}.png`) });
    await page.evaluate(axe);
    const { violations } = await page.evaluate(() => axe.run({ resultTypes: ["violations"] }));
    const bad = violations.filter((one) => ["serious", "critical"].includes(one.impact));
    result.serious += bad.map((one) => `${width} px: ${one.id} `).join("");
    await page.close();
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify({ ...result, asked }));
