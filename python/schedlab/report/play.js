"use strict";
(async () => {
  const at = (id) => document.getElementById(id);
  const { words, plays: packed } = JSON.parse(at("data").textContent);
  const bytes = Uint8Array.from(atob(packed), (char) => char.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  const plays = await new Response(stream).json();
  const last = Math.max(...plays.map((play) => play.picks.length)) - 1;
  let step = 0, asked = 0, right = 0;
  const shown = plays.map(() => new Set());
  const fill = (text, values) => text.replace(/\{(\w+)\}/g, (_, key) => values[key]);

  const plain = (text) => text.replace(/[&<]/g, (char) => `&#${char.charCodeAt(0)};`);

  // Planes as rows of channels, the device as a line with its heads, or bursts as bars.
  function draw(number, lit) {
    const { picture, planes, channels, quantum, picks } = plays[number];
    const [, waiting, places, , , head] = picks[step];
    const parts = [];
    if (picture === "planes") {
      const columns = Math.ceil(planes / channels);
      const wide = 336 / columns, high = 86 / channels;
      for (let plane = 0; plane < planes; plane++) {
        const has = (place) => place.some(([from, to]) =>
          plane >= Math.round(from * planes) && plane < Math.round(to * planes));
        const wait = places.filter(has).length; // the darker, the more of the queue wait for it
        const shade = lit !== null && has(places[lit]) ? 0.9 : 0.08 + (0.5 * wait) / places.length;
        const x = 2 + Math.floor(plane / channels) * wide, y = 2 + (plane % channels) * high;
        parts.push(`<rect x="${x}" y="${y}" width="${wide - 1.5}" height="${high - 1.5}"
          fill="currentColor" fill-opacity="${shade}"/>`);
      }
    } else if (picture === "line") {
      parts.push('<path d="M8 60H332" stroke="currentColor"/>');
      places.forEach(([[from]], row) => parts.push(`<circle cx="${8 + 324 * from}" cy="60"
        r="${row === lit ? 7 : 4}" fill="currentColor" fill-opacity="${row === lit ? 1 : 0.35}"/>`));
      parts.push(`<path d="M${8 + 324 * head} 52l-6-14h12z" fill="currentColor"/>`);
    } else if (picture === "queue") {
      const high = Math.min(14, 88 / places.length), named = high > 9;
      places.forEach(([[, left]], row) => {
        const y = 1 + row * high, wide = 290 * left, turn = Math.min(wide, 290 * quantum);
        const bar = (width, shade) => `<rect x="48" y="${y}" width="${width}"
          height="${high * 0.8}" fill="currentColor" fill-opacity="${shade}"/>`;
        const whole = row !== lit ? 0.2 : turn ? 0.45 : 0.9;
        parts.push(bar(wide, whole), turn ? bar(turn, row === lit ? 0.9 : 0.35) : "");
        if (named) parts.push(`<text x="44" y="${y + 9}" text-anchor="end" font-size="9"
          fill="currentColor">${plain(waiting[row][0].slice(0, 8))}</text>`);
      });
    }
    at(`picture${number}`).innerHTML = parts.join("");
    at(`picture${number}`).style.display = parts.length ? "" : "none";
  }

  function board(number) {
    const body = at(`queue${number}`), pick = plays[number].picks[step];
    body.replaceChildren();
    if (!pick) {
      at(`said${number}`).textContent = words.end;
      at(`picture${number}`).innerHTML = "";
      return;
    }
    const [, waiting, , chosen, why] = pick;
    const is_shown = shown[number].has(step);
    waiting.forEach((cells, row) => {
      const line = body.insertRow();
      line.className = is_shown && row === chosen ? "picked" : "";
      cells.forEach((cell, column) => {
        if (column || is_shown) {
          line.insertCell().textContent = cell;
          return;
        }
        const button = document.createElement("button");
        button.textContent = cell;
        button.onclick = () => predict(number, row);
        button.onfocus = () => draw(number, row);
        line.insertCell().append(button);
      });
      line.onmouseenter = () => draw(number, is_shown ? chosen : row);
    });
    if (is_shown) at(`said${number}`).textContent ||= fill(words.picked, { name: waiting[chosen][0], why });
    draw(number, is_shown ? chosen : null);
  }

  function predict(number, row) {
    const [, waiting, , chosen, why] = plays[number].picks[step];
    asked += 1;
    right += row === chosen;
    shown[number].add(step);
    at(`said${number}`).textContent =
      fill(row === chosen ? words.right : words.wrong, { name: waiting[chosen][0], why });
    show();
  }

  function show() {
    plays.forEach((_, number) => board(number));
    const there = plays.filter((play) => play.picks[step]);
    const same = new Set(there.map((play) => play.picks[step][0])).size === 1;
    const times = (same ? there.slice(0, 1) : there)
      .map((play) => `${same ? "" : `${play.policy} `}${play.picks[step][0]} ms`);
    at("to").value = step + 1;
    at("step").textContent = `/ ${last + 1}: ${times.join(", ")}` +
      (asked ? ` — ${fill(words.score, { right, asked })}` : "");
  }

  // Next shows the pick first, then the choice after it.
  function go(by) {
    const open = plays.some((play, number) => play.picks[step] && !shown[number].has(step));
    if (by > 0 && open) {
      plays.forEach((_, number) => shown[number].add(step));
    } else jump(step + by);
    show();
  }

  function jump(to) {
    step = Math.min(Math.max(to, 0), last);
    plays.forEach((_, number) => { at(`said${number}`).textContent = ""; });
  }

  at("back").onclick = () => go(-1);
  at("next").onclick = () => go(1);
  at("to").max = last + 1;
  at("to").onchange = () => {
    jump(Math.trunc(at("to").valueAsNumber || 1) - 1);
    show();
  };
  document.addEventListener("keydown", (event) => {
    if (event.target === at("to")) return;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (by) go(by);
  });
  show();
})();
