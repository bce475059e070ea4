// Opens report pages in headless Chromium and prints, as JSON, what axe-core finds in light and
// dark at two widths (the first page: all of them), and whether the page scrolls sideways.
// usage: node check.mjs CHROMIUM PROFILE_DIRECTORY PAGE...
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";

const [chromium, profile, ...pages] = process.argv.slice(2);
const require = createRequire(import.meta.url);
const axe = await readFile(require.resolve("axe-core/axe.min.js"), "utf8");
const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: profile,
  protocolTimeout: 300_000,
  args: [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
  ],
});

async function look(file, width, scheme) {
  const page = await browser.newPage();
  await page.setViewport({ width, height: 900 });
  await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
  const requests = [];
  page.on("request", (request) => requests.push(request.url()));
  await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
  await page.keyboard.press("Tab");
  const focus = await page.evaluate(() => document.activeElement.className);
  await page.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = true)));
  const overflow = await page.evaluate(
    () => document.scrollingElement.scrollWidth - document.documentElement.clientWidth,
  );
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() =>
    window.axe.run({ resultTypes: ["violations"] }),
  );
  await page.close();
  const found = violations.map((v) => ({
    id: v.id,
    impact: v.impact,
    nodes: v.nodes.length,
    at: v.nodes[0].target.join(" "),
    why: v.nodes[0].failureSummary,
  }));
  return { file, width, scheme, overflow, focus, requests: requests.length, violations: found };
}

const results = [];
try {
  const everyLook = [[1280, "light"], [1280, "dark"], [390, "light"]];
  for (const [i, file] of pages.entries()) {
    for (const [width, scheme] of i === 0 ? everyLook : [[390, "dark"]]) {
      results.push(await look(file, width, scheme));
    }
  }
} finally {
  await browser.close();
}
console.log(JSON.stringify(results, null, 1));
