// The timeline: one lane per run, one row per process, a bar per request, all on one clock.
//
// A bar is drawn in its parts while there is room; else a row is the mean number of requests in
// each part, which sorted times and their sums give exactly at every zoom.
"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const meta = JSON.parse($("timeline-data").textContent);
  const words = meta.words;
  const BARS = 1500; // in one lane, before rows become areas
  const SUB = 16; // bars above each other in a row
  const MARKS = 2000;
  const LANE = 400; // of the rows of a lane, so that both are in sight
  const HEAD = 22, AXIS = 26, GAP = 5, DEVICE = 34;
  const stage = $("stage"), tip = $("tip"), range = $("range");
  const shown = { work: 0, names: ["", ""], from: 0, to: 1, hover: null, chosen: null, found: [] };
  const lanes = [...stage.querySelectorAll("canvas")].map((canvas, place) => ({
    canvas, place, run: null, seen: [], tops: [], width: 0,
    sheet: document.createElement("canvas"), image: null, // of all areas, drawn at once
  }));
  const loaded = new Map();
  let ticket = 0, isPrinting = false, width = 0, left = 0;

  // ---- data

  const scene = () => meta.scenes[shown.work];
  const nameOf = (r) => scene().rows[r];

  async function unpack(id) {
    const text = atob($(id).textContent), bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
    return new Uint8Array(await new Response(stream).arrayBuffer());
  }

  // Numbers of 7 bits a byte, the lowest first.
  function reader(bytes) {
    let at = 0;
    return (count) => {
      const out = new Float64Array(count);
      for (let i = 0; i < count; i++) {
        let value = 0, scale = 1, byte;
        do {
          byte = bytes[at++];
          value += (byte & 127) * scale;
          scale *= 128;
        } while (byte & 128);
        out[i] = value;
      }
      return out;
    };
  }

  function summed(values) {
    for (let i = 1; i < values.length; i++) values[i] += values[i - 1];
    return values;
  }

  async function load(of) {
    if (loaded.has(of.id)) return loaded.get(of.id);
    const next = reader(await unpack(of.id)), n = of.count;
    const run = { ...of, n, row: next(n), t: [summed(next(n))] };
    for (let part = 0; part < scene().parts.length; part++) {
      const border = next(n), before = run.t[part];
      for (let i = 0; i < n; i++) border[i] += before[i];
      run.t.push(border);
    }
    if (of.has_places) {
      const steps = next(n);
      let place = 0;
      run.offset = steps.map((step) => {
        place += (step % 2 ? -(step + 1) : step) / 2;
        return place * of.unit;
      });
      run.size = next(n).map((size) => size * of.unit);
    }
    run.kind = next(n);
    const pauses = summed(next(of.idle)), lengths = next(of.idle);
    run.idle = [...pauses].map((from, i) => [from, from + lengths[i]]);
    index(run);
    loaded.set(of.id, run);
    return run;
  }

  function taken(values, places) {
    const out = new Float64Array(places.length);
    for (let i = 0; i < out.length; i++) out[i] = values[places[i]];
    return out;
  }

  // For each row its bars in order, the sorted borders, and places for bars that overlap.
  function index(run) {
    const last = run.t.length - 1, counts = new Uint32Array(scene().rows.length);
    for (let i = 0; i < run.n; i++) counts[run.row[i]]++;
    run.of = [...counts].map((count) => ({ bars: new Uint32Array(count), used: 0 }));
    for (let i = 0; i < run.n; i++) {
      const of = run.of[run.row[i]];
      of.bars[of.used++] = i;
    }
    run.sub = new Uint8Array(run.n);
    for (const of of run.of) {
      of.sorted = run.t.map((border) => taken(border, of.bars).sort());
      of.depth = deepest(of.sorted[0], of.sorted[last]);
      const free = new Float64Array(Math.min(SUB, Math.max(1, of.depth)));
      for (const i of of.bars) {
        let best = free.findIndex((until) => until <= run.t[0][i]);
        if (best < 0) best = free.indexOf(Math.min(...free));
        run.sub[i] = best;
        free[best] = run.t[last][i];
      }
    }
    if (scene().unit !== "request" || last < 2) return;
    run.device = { sorted: [last - 1, last].map((b) => Float64Array.from(run.t[b]).sort()) };
    run.device.depth = deepest(...run.device.sorted);
  }

  function deepest(begins, ends) {
    let most = 0;
    for (let i = 0, j = 0; i < begins.length; i++) {
      while (ends[j] <= begins[i] && j < i) j++;
      most = Math.max(most, i - j + 1);
    }
    return most;
  }

  // How many of a sorted list are at most x.
  function upTo(sorted, x, low = 0) {
    let high = sorted.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (sorted[middle] <= x) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // How many of a sorted list are passed in each of so many columns, on average.
  function passed(sorted, columns) {
    const out = new Float64Array(columns), step = (shown.to - shown.from) / columns;
    for (let column = 0, i = upTo(sorted, shown.from); column < columns; column++) {
      const end = shown.from + (column + 1) * step;
      let sum = i * step;
      for (; i < sorted.length && sorted[i] <= end; i++) sum += end - sorted[i];
      out[column] = sum / step;
    }
    return out;
  }

  // The bars of a row that are there between two times; at most `most` of them.
  function between(run, r, from, to, most) {
    const of = run.of[r], last = run.t.length - 1;
    const end = upTo(of.sorted[0], to), ended = upTo(of.sorted[last], from);
    const count = end - ended;
    if (count > most) return null;
    const out = [];
    for (let at = end - 1; at >= 0 && out.length < count; at--) {
      if (run.t[last][of.bars[at]] > from) out.push(of.bars[at]);
    }
    return out;
  }

  // Those that came later and went to the device (ran) before a bar did.
  function overtakers(run, i) {
    const out = [], turn = run.t.length - 2, from = run.t[0][i], until = run.t[Math.max(turn, 1)][i];
    const whole = turn < 1;
    if (scene().unit === "burst") {
      for (let j = 0; j < run.n && run.t[0][j] < until; j++) {
        if (j !== i && run.t[turn][j] < until && run.t[turn + 1][j] > from) out.push(j);
      }
      return out;
    }
    for (let j = upTo(run.t[0], from); j < run.n && run.t[0][j] < until; j++) {
      if (whole ? run.t[1][j] < until : run.t[turn][j] < until) out.push(j);
    }
    return out;
  }

  // ---- words

  const number = (value, digits = 3) =>
    Number(value.toPrecision(digits)).toLocaleString(document.documentElement.lang);

  function time(ns, digits = 3) {
    const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]].find(
      ([scale]) => Math.abs(ns) >= scale) || [1, "ns"];
    return `${number(ns / scale, digits)} ${unit}`;
  }

  const moment = (ns) => `${(ns / 1e9).toLocaleString(document.documentElement.lang, {
    minimumFractionDigits: 6, maximumFractionDigits: 6 })} s`;

  function bytes(size) {
    const [scale, unit] = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [1024, "KiB"], [1, "B"]].find(
      ([scale]) => size >= scale) || [1, "B"];
    return `${number(size / scale)} ${unit}`;
  }

  const filled = (text, values) => text.replace(/\{(\w+)\}/g, (_, key) => values[key]);

  // A bar in [word, value] pairs.
  function facts(run, i) {
    const out = [];
    if (run.size) {
      out.push([words.operation, `${words.kinds[run.kind[i]]} ${bytes(run.size[i])}`]);
      const place = run.offset[i].toLocaleString(document.documentElement.lang);
      out.push([words.offset, filled(words.at_byte, { place })]);
    }
    out.push([words.arrives, moment(run.t[0][i])]);
    scene().parts.forEach((part, p) => {
      out.push([words.parts[part], time(run.t[p + 1][i] - run.t[p][i])]);
    });
    out.push([words.total, time(run.t[run.t.length - 1][i] - run.t[0][i])]);
    if (!run.size && words.ends[run.kind[i]]) out.push([words.ended, words.ends[run.kind[i]]]);
    const before = overtakers(run, i), by = new Map();
    for (const j of before) by.set(run.row[j], (by.get(run.row[j]) || 0) + 1);
    const most = [...by].sort((a, b) => b[1] - a[1]).slice(0, 4);
    const list = most.map(([r, count]) => `${nameOf(r)} ${count}`).join(", ");
    const label = scene().unit === "burst" ? words.ran_before : words.overtaken;
    out.push([label, before.length ? `${number(before.length, 6)} (${list})` : words.nobody]);
    return out;
  }

  // ---- drawing

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  let ink = {}, fills = {};

  function dye() {
    ink = Object.fromEntries(["paper", "raised", "ink", "soft", "rule", "grid", "accent", "worse"]
      .map((name) => [name, colour(`--${name}`)]));
    fills = {};
    const scale = window.devicePixelRatio || 1;
    for (const [part, { series, height, lines }] of Object.entries(meta.looks)) {
      const plain = colour(`--s${series}`), tile = document.createElement("canvas");
      tile.width = tile.height = 6 * scale;
      const pen = tile.getContext("2d");
      pen.scale(scale, scale);
      pen.fillStyle = plain;
      pen.globalAlpha = lines === "solid" ? 1 : 0.35;
      pen.fillRect(0, 0, 6, 6);
      pen.globalAlpha = 1;
      pen.strokeStyle = plain;
      pen.lineWidth = 1.6;
      pen.beginPath();
      if (lines === "slanted") for (const x of [-6, 0, 6]) pen.moveTo(x, 6), pen.lineTo(x + 6, 0);
      if (lines === "upright") pen.moveTo(1.5, 0), pen.lineTo(1.5, 6), pen.moveTo(4.5, 0), pen.lineTo(4.5, 6);
      if (lines === "dotted") pen.rect(1, 1, 1.5, 1.5), pen.rect(4, 4, 1.5, 1.5);
      pen.stroke();
      const pixels = new Uint32Array(pen.getImageData(0, 0, tile.width, tile.height).data.buffer);
      fills[part] = { plain, height, pattern: null, tile, ink: pixels, side: tile.width };
    }
    for (const swatch of document.querySelectorAll("#legend canvas")) {
      const pen = swatch.getContext("2d"), fill = fills[swatch.dataset.part];
      [swatch.width, swatch.height] = [28 * scale, 14 * scale];
      pen.fillStyle = pen.createPattern(fill.tile, "repeat");
      const high = 14 * scale * fill.height;
      pen.fillRect(0, (14 * scale - high) / 2, 28 * scale, high);
    }
  }

  const xOf = (ns) => left + ((ns - shown.from) / (shown.to - shown.from)) * (width - left);
  const nsOf = (x) => shown.from + ((x - left) / (width - left)) * (shown.to - shown.from);

  // Rows of both lanes have the same height, so that they can be compared.
  function measure() {
    const runs = lanes.map((lane) => lane.run).filter(Boolean);
    const rows = scene().rows, crowded = rows.length > 14;
    const heights = rows.map((_, r) => {
      const depth = Math.min(SUB, Math.max(1, ...runs.map((run) => run.of[r].depth)));
      return crowded ? 16 : Math.min(84, 14 + 5 * depth, Math.max(24, LANE / rows.length));
    });
    width = isPrinting ? 1000 : stage.clientWidth;
    left = width < 640 ? 0 : Math.min(200, 24 + 7 * Math.max(...rows.map((row) => row.length), lanes.some((lane) => lane.run && lane.run.device) ? 20 : 6));
    for (const lane of lanes) {
      let y = HEAD;
      lane.device = lane.run && lane.run.device ? y : -1;
      if (lane.device >= 0) [lane.device, y] = [y + (left ? 0 : 13), y + (left ? 0 : 13) + DEVICE + GAP];
      lane.tops = heights.map((height) => {
        const top = y + (left ? 0 : 13);
        y = top + height + GAP;
        return top;
      });
      lane.heights = heights;
      lane.bottom = y;
      const scale = window.devicePixelRatio || 1;
      lane.canvas.parentElement.hidden = !lane.run;
      lane.canvas.style.height = `${y + AXIS}px`;
      lane.canvas.style.width = isPrinting ? `${width}px` : "100%";
      const [w, h] = [Math.round(width * scale), Math.round((y + AXIS) * scale)];
      if (lane.canvas.width !== w || lane.canvas.height !== h) {
        [lane.canvas.width, lane.canvas.height] = [w, h];
      }
    }
  }

  function draw() {
    ticket = 0;
    const drawn = lanes.filter((lane) => lane.run), { rows } = scene();
    const used = rows.filter((_, r) => drawn.some(({ run }) => run.of[r].bars.length)).length;
    // A row is drawn in the same way in both lanes.
    const seen = drawn.map(({ run }) => rows.map((_, r) =>
      between(run, r, shown.from, shown.to, BARS / Math.max(1, used))));
    drawn.forEach((lane, place) => {
      lane.seen = rows.map((_, r) => (seen.every((each) => each[r]) ? seen[place][r] : null));
      drawLane(lane);
    });
    range.textContent = filled(words.range, {
      from: moment(shown.from), to: moment(shown.to), span: time(shown.to - shown.from),
    });
    const whole = scene().span_ns, bar = $("where").firstElementChild.style;
    bar.left = `${(100 * shown.from) / whole}%`;
    bar.width = `${Math.max(0.3, (100 * (shown.to - shown.from)) / whole)}%`;
  }

  const redraw = () => {
    ticket = ticket || requestAnimationFrame(draw);
  };

  function drawLane(lane) {
    const pen = lane.canvas.getContext("2d"), run = lane.run, scale = window.devicePixelRatio || 1;
    pen.setTransform(scale, 0, 0, scale, 0, 0);
    pen.fillStyle = ink.paper;
    pen.fillRect(0, 0, width, lane.bottom + AXIS);
    const font = getComputedStyle(document.body).fontFamily;
    pen.font = `12px ${font}`;
    axis(pen, lane);
    for (const fill of Object.values(fills)) fill.pattern = pen.createPattern(fill.tile, "repeat");
    for (const fill of Object.values(fills)) {
      fill.pattern.setTransform(new DOMMatrix().scale(1 / scale));
    }
    clear(lane);
    if (lane.device >= 0) drawDevice(pen, lane);
    lane.tops.forEach((top, r) => {
      label(pen, nameOf(r), top, lane.heights[r]);
      pen.save();
      pen.beginPath();
      pen.rect(left, 0, width - left, lane.bottom);
      pen.clip();
      if (lane.seen[r]) drawBars(pen, lane, r, lane.seen[r]);
      else drawAreas(lane, r);
      pen.restore();
    });
    if (lane.device >= 0 || !lane.seen.every(Boolean)) {
      lane.sheet.getContext("2d").putImageData(lane.image, 0, 0);
      pen.drawImage(lane.sheet, left, 0, lane.image.width / scale, lane.image.height / scale);
    }
    marks(pen, lane);
    pen.fillStyle = ink.ink;
    pen.font = `600 13px ${font}`;
    pen.textAlign = "left";
    pen.fillText(run.name, 2, 15);
  }

  function label(pen, text, top, height) {
    pen.fillStyle = left ? ink.raised : ink.rule;
    if (left) pen.fillRect(left, top, width - left, height);
    else pen.fillRect(0, top + height + 2, width, 1);
    pen.fillStyle = ink.ink;
    pen.textAlign = left ? "right" : "left";
    pen.textBaseline = "alphabetic";
    pen.fillText(text, left ? left - 8 : 2, left ? top + height / 2 + 4 : top - 3, left ? left - 10 : width);
  }

  function axis(pen, lane) {
    const span = shown.to - shown.from, about = Math.max(2, Math.floor((width - left) / 120));
    const power = 10 ** Math.floor(Math.log10(span / about));
    const step = [1, 2, 5, 10].map((m) => m * power).find((each) => span / each <= about);
    const digits = Math.max(0, 9 - Math.floor(Math.log10(step) + 1e-9));
    pen.strokeStyle = ink.grid;
    pen.fillStyle = ink.soft;
    pen.textAlign = "center";
    pen.beginPath();
    for (let at = Math.ceil(shown.from / step) * step; at <= shown.to; at += step) {
      const x = Math.round(xOf(at)) + 0.5;
      pen.moveTo(x, HEAD - 4);
      pen.lineTo(x, lane.bottom + 4);
      const text = `${(at / 1e9).toLocaleString(document.documentElement.lang, {
        minimumFractionDigits: Math.min(digits, 9), maximumFractionDigits: Math.min(digits, 9) })} s`;
      const half = pen.measureText(text).width / 2;
      if (x - half >= left && x + half <= width) pen.fillText(text, x, lane.bottom + 18);
    }
    pen.stroke();
  }

  function drawBars(pen, lane, r, bars) {
    const { run } = lane, top = lane.tops[r], deep = Math.min(SUB, Math.max(1, run.of[r].depth));
    const each = lane.heights[r] / deep;
    scene().parts.forEach((part, p) => {
      const { plain, pattern, height } = fills[part], high = Math.max(1, (each - 1) * height);
      const y = top + (each - 1 - high) / 2, broad = [];
      pen.fillStyle = plain; // set twice, not for each bar: that took most of the time
      for (const i of bars) {
        const from = run.t[p][i], to = run.t[p + 1][i];
        if (to <= from || to < shown.from || from > shown.to) continue;
        const x = Math.max(xOf(from), left - 2), wide = Math.min(xOf(to), width + 2) - x;
        if (wide >= 4) broad.push(x, y + run.sub[i] * each, wide);
        else pen.fillRect(x, y + run.sub[i] * each, Math.max(wide, 0.8), high);
      }
      pen.fillStyle = pattern;
      for (let at = 0; at < broad.length; at += 3) pen.fillRect(broad[at], broad[at + 1], broad[at + 2], high);
    });
    if (scene().unit !== "request" || each < 5) return;
    pen.strokeStyle = ink.paper; // a write has a light line through it
    pen.lineWidth = 1;
    pen.beginPath();
    for (const i of bars) {
      if (run.kind[i] !== 1) continue;
      const p = run.t.length - 2, y = top + run.sub[i] * each + (each - 1) / 2;
      pen.moveTo(Math.max(xOf(run.t[p][i]), left), y);
      pen.lineTo(Math.min(xOf(run.t[p + 1][i]), width), y);
    }
    pen.stroke();
  }

  function drawAreas(lane, r) {
    const of = lane.run.of[r], high = lane.heights[r];
    stack(lane, of.sorted, [...scene().parts].reverse(), lane.tops[r], high, high / Math.max(1, of.depth));
  }

  // An empty sheet of the size of the lane: one picture of all its rows is drawn in a third of the
  // time that one of each takes.
  function clear(lane) {
    const scale = window.devicePixelRatio || 1;
    const wide = Math.max(1, Math.floor((width - left) * scale)), tall = Math.ceil(lane.bottom * scale);
    if (lane.image && lane.image.width === wide && lane.image.height === tall) {
      lane.pixels.fill(0);
      return;
    }
    [lane.sheet.width, lane.sheet.height] = [wide, tall];
    lane.image = new ImageData(wide, tall);
    lane.pixels = new Uint32Array(lane.image.data.buffer);
  }

  // The mean number in each of the parts, the last one at the bottom: pixels of their patterns. A
  // path of so many corners would take a second.
  function stack(lane, sorted, parts, top, high, each) {
    const scale = window.devicePixelRatio || 1, { pixels } = lane, wide = lane.image.width;
    const tall = Math.round(high * scale), floor = Math.round(top * scale) + tall - 1;
    const base = new Float64Array(wide);
    let after = passed(sorted[parts.length], wide);
    parts.forEach((part, place) => {
      const { ink: tile, side } = fills[part], before = passed(sorted[parts.length - 1 - place], wide);
      for (let x = 0; x < wide; x++) {
        const from = Math.ceil(base[x]);
        base[x] += Math.max(0, before[x] - after[x]) * each * scale;
        const to = Math.min(tall, Math.ceil(base[x] - 0.02));
        for (let y = from; y < to; y++) {
          pixels[(floor - y) * wide + x] = tile[(y % side) * side + (x % side)];
        }
      }
      after = before;
    });
  }

  // Requests in the device, and below it where it idles while others wait.
  function drawDevice(pen, lane) {
    const { device, idle } = lane.run, top = lane.device;
    const text = `${words.in_device} (${filled(words.most_in_device, { depth: device.depth })})`;
    label(pen, text, top, DEVICE);
    const high = DEVICE - 8;
    pen.save();
    pen.beginPath();
    pen.rect(left, top, width - left, DEVICE);
    pen.clip();
    stack(lane, device.sorted, ["device"], top, high, high / Math.max(1, device.depth));
    pen.fillStyle = ink.worse;
    let at = upTo(idle.map((one) => one[1]), shown.from), until = -1;
    for (; at < idle.length && idle[at][0] < shown.to; at++) {
      const x = xOf(idle[at][0]), end = xOf(idle[at][1]);
      if (end - until < 0.5) continue;
      pen.fillRect(Math.max(x, until), top + high + 3, Math.max(0.5, end - Math.max(x, until)), 4);
      until = end;
    }
    pen.restore();
  }

  function outlined(pen, lane, i, style) {
    const { run } = lane, r = run.row[i], bars = lane.seen[r], last = run.t.length - 1;
    const deep = Math.min(SUB, Math.max(1, run.of[r].depth)), each = lane.heights[r] / deep;
    const x = Math.max(left, xOf(run.t[0][i])), end = Math.min(width, xOf(run.t[last][i]));
    if (end < left || x > width) return;
    const y = bars ? lane.tops[r] + run.sub[i] * each : lane.tops[r];
    pen.strokeStyle = style;
    pen.strokeRect(x - 1, y - 1.5, Math.max(2, end - x + 2), bars ? each + 1 : lane.heights[r] + 2);
  }

  function ticks(pen, lane, list, style, below) {
    const { run } = lane, turn = run.t.length - 2;
    pen.fillStyle = style;
    for (const i of list.slice(0, MARKS)) {
      const r = run.row[i], x = xOf(run.t[turn][i]);
      if (x < left || x > width) continue;
      pen.fillRect(x - 0.75, below ? lane.tops[r] + lane.heights[r] : lane.tops[r] - 4, 1.5, 4);
    }
  }

  function marks(pen, lane) {
    ticks(pen, lane, shown.found.filter((one) => one.run === lane.run).map((one) => one.i),
      ink.accent, false);
    pen.lineWidth = 2;
    for (const [one, style] of [[shown.hover, ink.soft], [shown.chosen, ink.ink]]) {
      if (!one || one.run !== lane.run || one.i === undefined) continue;
      outlined(pen, lane, one.i, style);
      ticks(pen, lane, overtakers(one.run, one.i), ink.worse, true);
    }
  }

  // ---- finding

  function rowAt(lane, y) {
    return lane.tops.findIndex((top, r) => y >= top - 1 && y <= top + lane.heights[r] + 1);
  }

  // The bar at a place of a lane.
  function at(lane, x, y) {
    const { run } = lane, r = rowAt(lane, y);
    if (!run || r < 0 || x < left) return null;
    const last = run.t.length - 1, slack = ((shown.to - shown.from) / (width - left)) * 1.5;
    const ns = nsOf(x), bars = lane.seen[r];
    const deep = Math.min(SUB, Math.max(1, run.of[r].depth));
    const sub = Math.floor((y - lane.tops[r]) / (lane.heights[r] / deep));
    let best = null, nearest = Infinity;
    for (const i of bars || between(run, r, ns - slack, ns + slack, 1e5) || []) {
      if (bars && run.sub[i] !== Math.min(Math.max(sub, 0), deep - 1)) continue;
      const off = Math.max(run.t[0][i] - ns, ns - run.t[last][i], 0);
      // Of those that a row of areas hides, the one that takes longest.
      const rank = off > slack ? Infinity : bars ? off : run.t[0][i] - run.t[last][i];
      if (rank < nearest || (rank === nearest && rank < Infinity && best !== null && i > best)) {
        [best, nearest] = [i, rank];
      }
    }
    return best === null ? null : { run, i: best };
  }

  // The middle of a bar on the page, for whoever points at it.
  function place(lane, i) {
    const { run } = lane, r = run.row[i], box = lane.canvas.getBoundingClientRect();
    const last = run.t.length - 1, deep = Math.min(SUB, Math.max(1, run.of[r].depth));
    const x = (Math.max(left, xOf(run.t[0][i])) + Math.min(width, xOf(run.t[last][i]))) / 2;
    const y = lane.tops[r] + (run.sub[i] + 0.5) * (lane.heights[r] / deep);
    return { x: box.left + x, y: box.top + y };
  }

  function search(text) {
    shown.found = [];
    const typed = text.trim().toLowerCase();
    if (typed) {
      const longer = typed.match(/^>\s*([\d.]+)\s*(ns|µs|us|ms|s)?$/);
      const byte = typed.match(/^@\s*(\d+)$/);
      const factor = { ns: 1, "µs": 1e3, us: 1e3, ms: 1e6, s: 1e9 };
      for (const { run } of lanes) {
        if (!run) continue;
        const last = run.t.length - 1, limit = longer && longer[1] * factor[longer[2] || "ms"];
        const named = scene().rows.map((row) => row.toLowerCase().includes(typed));
        for (let i = 0; i < run.n; i++) {
          if (longer ? run.t[last][i] - run.t[0][i] > limit
            : byte ? run.offset && run.offset[i] <= +byte[1] && +byte[1] < run.offset[i] + run.size[i]
            : named[run.row[i]]) shown.found.push({ run, i });
        }
      }
      shown.found.sort((a, b) => a.run.t[0][a.i] - b.run.t[0][b.i]);
    }
    $("found").textContent = typed ? filled(words.found, { count: number(shown.found.length, 7) }) : "";
    redraw();
  }

  // ---- what is shown

  function describe(one, target) {
    target.replaceChildren();
    const title = document.createElement("strong");
    title.textContent = `${one.run.name}: ${nameOf(one.run.row[one.i])}`;
    const list = document.createElement("dl");
    for (const [word, value] of facts(one.run, one.i)) {
      const [term, meaning] = [document.createElement("dt"), document.createElement("dd")];
      [term.textContent, meaning.textContent] = [word, value];
      list.append(term, meaning);
    }
    target.append(title, list);
  }

  function choose(one) {
    shown.chosen = one;
    const details = $("chosen");
    if (one) describe(one, details);
    else details.textContent = words.choose;
    redraw();
  }

  // Shows a bar with as much before and after it.
  function focus(one) {
    const last = one.run.t.length - 1, from = one.run.t[0][one.i], to = one.run.t[last][one.i];
    const more = Math.max((to - from) / 3, 20_000);
    choose(one);
    look(from - more, to + more);
  }

  const zoom = d3.zoom().filter((event) => !event.button && event.type !== "dblclick")
    .on("zoom", ({ transform, sourceEvent }) => {
      const whole = scene().span_ns, inner = width - left;
      shown.from = Math.max(0, (-transform.x / transform.k / Math.max(1, inner)) * whole);
      shown.to = Math.min(whole, shown.from + whole / transform.k);
      if (sourceEvent) tip.hidden = true;
      redraw();
      later();
    });

  function limits() {
    const inner = width - left;
    zoom.extent([[0, 0], [inner, 1]]).translateExtent([[0, 0], [inner, 1]])
      .scaleExtent([1, Math.max(2, scene().span_ns / 2_000)]);
  }

  function look(from, to) {
    const whole = scene().span_ns, inner = width - left;
    const span = Math.min(whole, Math.max(2_000, to - from));
    const start = Math.min(Math.max(0, from), whole - span), k = whole / span;
    d3.select(stage).call(zoom.transform,
      d3.zoomIdentity.translate((-start / whole) * inner * k, 0).scale(k));
  }

  function pan(share) {
    const span = shown.to - shown.from;
    look(shown.from + share * span, shown.to + share * span);
  }

  function scaleBy(factor) {
    const middle = (shown.from + shown.to) / 2, half = (shown.to - shown.from) / 2 / factor;
    look(middle - half, middle + half);
  }

  // The table of the longest in view, when it is open; and the address of this view.
  let waiting = 0;
  function later() {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      if ($("view").open) table();
    }, 150);
  }

  function table() {
    const found = [];
    for (const { run } of lanes) {
      if (!run) continue;
      const last = run.t.length - 1;
      for (let i = 0, end = upTo(run.t[0], shown.to); i < end; i++) {
        if (run.t[last][i] >= shown.from) found.push({ run, i, total: run.t[last][i] - run.t[0][i] });
      }
    }
    found.sort((a, b) => b.total - a.total);
    const parts = scene().parts.map((part) => words.parts[part]);
    const heads = [words.candidate, words.process, words.arrives,
      ...(found[0] && found[0].run.size ? [words.operation, words.offset] : []), ...parts, words.total];
    const cells = found.slice(0, 100).map(({ run, i, total }) => [
      run.name, nameOf(run.row[i]), moment(run.t[0][i]),
      ...(run.size ? [`${words.kinds[run.kind[i]]} ${bytes(run.size[i])}`,
        run.offset[i].toLocaleString(document.documentElement.lang)] : []),
      ...scene().parts.map((_, p) => time(run.t[p + 1][i] - run.t[p][i])), time(total),
    ]);
    const body = $("view").querySelector("table");
    body.tHead.replaceChildren(lineOf("th", heads));
    body.tBodies[0].replaceChildren(...cells.map((line) => lineOf("td", line)));
    const count = { shown: cells.length, count: number(found.length, 7) };
    body.caption.textContent = filled(words.table_note, count);
  }

  function lineOf(tag, values) {
    const line = document.createElement("tr");
    line.append(...values.map((value) => {
      const cell = document.createElement(tag);
      cell.textContent = value;
      if (tag === "th") cell.scope = "col";
      return cell;
    }));
    return line;
  }

  function fill(select, options, chosen) {
    select.replaceChildren(...options.map(([value, text]) => new Option(text, value, false, value === chosen)));
  }

  // Takes the runs of `names` ("" for none) of a piece of work, and draws them.
  async function take(work, names) {
    shown.work = work;
    const runs = meta.scenes[work].runs, known = new Map(runs.map((run) => [run.name, run]));
    shown.names = names.map((name, i) => (known.has(name) ? name : i ? "" : runs[0].name));
    const all = runs.map((run) => [run.name, run.name]);
    fill($("work"), meta.scenes.map((one, i) => [String(i), one.title]), String(work));
    fill($("above"), all, shown.names[0]);
    fill($("below"), [["", words.nothing], ...all], shown.names[1]);
    const wanted = shown.names.map((name) => known.get(name));
    const runsOf = await Promise.all(wanted.map((of) => of && load(of)));
    lanes.forEach((lane, i) => {
      lane.run = runsOf[i] || null;
      const count = lane.run ? number(lane.run.n, 7) : "";
      const what = { name: shown.names[i], count };
      lane.canvas.setAttribute("aria-label", lane.run ? filled(words.lane, what) : "");
    });
    for (const item of document.querySelectorAll("#legend li")) {
      item.hidden = !scene().parts.includes(item.dataset.part) &&
        !(item.dataset.part === "idle" && lanes.some((lane) => lane.run && lane.run.device));
    }
    measure();
    limits();
  }

  const whole = () => look(0, scene().span_ns);

  // The address after # says what to show: work, above, below, run and bar, or from and to in s.
  async function follow() {
    const asked = new URLSearchParams(location.hash.slice(1));
    const work = Math.min(Number(asked.get("work")) || 0, meta.scenes.length - 1);
    const runs = meta.scenes[work].runs.map((run) => run.name);
    const { pair } = meta.scenes[work];
    let names = [asked.get("above") ?? pair[0], asked.get("below") ?? pair[1]];
    const of = asked.get("run");
    if (of && runs.includes(of) && !names.includes(of)) names = [names[0], of];
    await take(work, names);
    choose(null);
    const lane = lanes.find((each) => each.run && each.run.name === of), i = Number(asked.get("bar"));
    if (lane && asked.has("bar") && i >= 0 && i < lane.run.n) focus({ run: lane.run, i });
    else if (asked.has("from")) look(asked.get("from") * 1e9, asked.get("to") * 1e9);
    else whole();
    draw();
  }

  // ---- pointing, typing, printing

  function point(event) {
    const lane = lanes.find((each) => each.canvas === event.target);
    if (!lane || !lane.run) return;
    const box = lane.canvas.getBoundingClientRect();
    const one = at(lane, event.clientX - box.left, event.clientY - box.top);
    const before = shown.hover;
    shown.hover = one;
    tip.hidden = !one;
    if (one) {
      if (!before || before.i !== one.i || before.run !== one.run) describe(one, tip);
      tip.style.left = `${Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8))}px`;
      const above = event.clientY + 18 + tip.offsetHeight > innerHeight;
      tip.style.top = `${above ? Math.max(4, event.clientY - tip.offsetHeight - 12) : event.clientY + 18}px`;
    }
    if (one || before) redraw();
  }

  function next(step) {
    const list = shown.found.length ? shown.found : null, now = shown.chosen;
    if (list) {
      const here = now ? list.findIndex((one) => one.run === now.run && one.i === now.i) : -1;
      focus(list[(here + step + list.length) % list.length]);
    } else if (now) {
      const bars = now.run.of[now.run.row[now.i]].bars, here = bars.indexOf(now.i) + step;
      if (here >= 0 && here < bars.length) focus({ run: now.run, i: bars[here] });
    } else {
      const lane = lanes.find((each) => each.run && each.run.n);
      if (lane) focus({ run: lane.run, i: lane.run.longest[0] });
    }
  }

  let longest = -1;
  function nextLongest() {
    const all = lanes.flatMap(({ run }) => (run ? run.longest.map((i) => ({ run, i })) : []));
    longest = (longest + 1) % all.length;
    if (all.length) focus(all[longest]);
  }

  const swap = () => {
    const [above, below] = shown.names, others = scene().runs.map((run) => run.name);
    const other = others[(others.indexOf(above) + 1) % others.length];
    retake(shown.work, below ? [below, above] : [other, ""]);
  };

  async function retake(work, names) {
    const { from, to } = shown, same = work === shown.work;
    await take(work, names);
    choose(null);
    if (same) look(from, to);
    else whole();
    search($("search").value);
  }

  const keys = {
    ArrowLeft: () => pan(-0.2), ArrowRight: () => pan(0.2), "+": () => scaleBy(2),
    "=": () => scaleBy(2), "-": () => scaleBy(0.5), 0: whole, Home: whole, n: () => next(1),
    p: () => next(-1), l: nextLongest, s: swap, Escape: () => choose(null),
  };

  function listen() {
    d3.select(stage).call(zoom);
    stage.addEventListener("pointermove", point);
    stage.addEventListener("pointerleave", () => {
      tip.hidden = true;
      shown.hover = null;
      redraw();
    });
    stage.addEventListener("click", (event) => {
      point(event);
      choose(shown.hover);
    });
    stage.addEventListener("keydown", (event) => {
      const act = !event.ctrlKey && !event.metaKey && !event.altKey && keys[event.key];
      if (!act) return;
      event.preventDefault();
      act();
    });
    $("work").addEventListener("change", (e) => retake(Number(e.target.value), meta.scenes[e.target.value].pair));
    for (const id of ["above", "below"]) {
      $(id).addEventListener("change", () => retake(shown.work, [$("above").value, $("below").value]));
    }
    const press = { swap, closer: () => scaleBy(2), farther: () => scaleBy(0.5), all: whole,
      earlier: () => pan(-0.4), later: () => pan(0.4), longest: nextLongest };
    for (const [id, act] of Object.entries(press)) $(`do-${id}`).addEventListener("click", act);
    $("search").addEventListener("input", (event) => search(event.target.value));
    $("search").addEventListener("keydown", (event) => {
      if (event.key !== "Enter") return;
      event.preventDefault();
      if (shown.found.length) next(event.shiftKey ? -1 : 1);
    });
    $("view").addEventListener("toggle", table);
    addEventListener("hashchange", follow);
    const again = () => {
      const { from, to } = shown;
      dye();
      measure();
      limits();
      look(from, to);
      draw();
    };
    new ResizeObserver(() => stage.clientWidth && stage.clientWidth !== width && !isPrinting && again()).observe(stage);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
    for (const [event, printing] of [["beforeprint", true], ["afterprint", false]]) {
      addEventListener(event, () => {
        isPrinting = printing;
        document.documentElement.classList.toggle("printing", printing);
        again();
      });
    }
  }

  window.timeline = { lanes, shown, place, focus, look, at, draw, facts };
  $("app").hidden = false;
  dye();
  listen();
  window.timeline.ready = follow().then(() => document.documentElement.classList.add("drawn"));
})();
