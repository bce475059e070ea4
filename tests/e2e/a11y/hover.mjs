// Points at bars of a timeline and prints, as JSON, what the page says of each.
// usage: node hover.mjs CHROMIUM PROFILE_DIRECTORY PAGE PLACES   (a JSON list of [lane, bar])
import { pathToFileURL } from "node:url";
import puppeteer from "puppeteer-core";
import { pointedAt } from "./point.mjs";

const [chromium, profile, file, places] = process.argv.slice(2);
const browser = await puppeteer.launch({
  executablePath: chromium,
  userDataDir: profile,
  args: ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"],
});
let found = [];
try {
  const page = await browser.newPage();
  await page.setViewport({ width: 1280, height: 1200 });
  await page.goto(pathToFileURL(file).href, { waitUntil: "load" });
  await page.waitForSelector("html.drawn");
  found = await pointedAt(page, JSON.parse(places));
} finally {
  await browser.close();
}
console.log(JSON.stringify(found));
