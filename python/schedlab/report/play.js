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

  // Planes as rows of channels, or the device as a line with its heads.
  function draw(number, lit) {
    const { planes, channels, picks } = plays[number];
    const [, , places, , , head] = picks[step];
    const parts = [];
    if (planes) {
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
    } else if (places[0].length) {
      parts.push('<path d="M2 60H338" stroke="currentColor"/>');
      places.forEach(([[from]], row) => parts.push(`<circle cx="${2 + 336 * from}" cy="60"
        r="${row === lit ? 7 : 4}" fill="currentColor" fill-opacity="${row === lit ? 1 : 0.35}"/>`));
      if (head !== null) {
        const x = 2 + 336 * head;
        parts.push(`<path d="M${x} 52l-6-14h12z" fill="currentColor"/>`);
      }
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
    const times = plays.map((play) => play.picks[step]?.[0]).filter(Boolean);
    const time = [...new Set(times)].join(" | ");
    at("to").value = step + 1;
    at("step").textContent = `/ ${last + 1}: ${time} ms` +
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
