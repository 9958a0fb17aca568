// Follows the stream of a page: replaces what has changed, and draws plots. Forms apply while one types.
"use strict";
(() => {
  document.documentElement.className = "js";
  const main = document.getElementById("content");
  const state = document.getElementById("state");
  const plots = new Map();
  let heard = Date.now(), lost = 0; // when the server was heard last, and since when it is away (0: it isn't)

  // sync makes a node's children like another's, and keeps nodes that are alike: so focus, selection
  // and scroll positions stay. Plots are drawn here and kept as they are.
  function sync(to, from) {
    const now = [...to.childNodes], wanted = [...from.childNodes];
    wanted.forEach((node, i) => {
      const old = now[i];
      if (!old) to.append(document.importNode(node, true));
      else if (old.nodeType !== node.nodeType || old.nodeName !== node.nodeName || old.id !== node.id)
        old.replaceWith(document.importNode(node, true));
      else if (node.nodeType !== Node.ELEMENT_NODE) {
        if (old.data !== node.data) old.data = node.data;
      } else if (!("keep" in old.dataset) || old.dataset.labels !== node.dataset.labels || old.dataset.target !== node.dataset.target) {
        const redraw = "keep" in old.dataset;
        attributes(old, node);
        if (redraw) { forget(old.dataset.plot); old.replaceChildren(...[...node.childNodes].map((n) => document.importNode(n, true))); }
        else sync(old, node);
      }
    });
    now.slice(wanted.length).forEach((node) => node.remove());
  }

  function attributes(to, from) {
    for (const { name } of [...to.attributes]) {
      if (!from.hasAttribute(name) && !(to.nodeName === "DETAILS" && name === "open")) to.removeAttribute(name);
    }
    for (const { name, value } of from.attributes) {
      if (to.nodeName === "DETAILS" && name === "open") continue; // the reader's own
      if (to.getAttribute(name) !== value) to.setAttribute(name, value);
    }
    if (to.type === "checkbox" && to !== document.activeElement) to.checked = from.hasAttribute("checked");
  }

  const color = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
  // short is a number with three significant digits.
  const short = (v) => v == null ? "" : Math.abs(v) >= 1e4 ? compact.format(v)
    : v !== 0 && Math.abs(v) < 1e-3 ? v.toExponential(2) : String(Math.abs(v) >= 1e3 ? Math.round(v) : Number(v.toPrecision(3)));

  function draw(figure, held) {
    const labels = figure.dataset.labels.split("\n"), stepped = figure.dataset.stepped;
    const series = [{}, ...labels.map((label, i) => ({
      label, stroke: color("--k" + i % 8), dash: i < 8 ? undefined : [2, 3], width: 2, points: { show: false },
      paths: stepped ? uPlot.paths.stepped({ align: 1 }) : undefined,
    }))];
    if (figure.dataset.target !== undefined)
      series.push({ label: "target", stroke: color("--target"), width: 1.5, dash: [6, 4], points: { show: false } });
    const clock = (_, all) => all.map((s) => new Date(s * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" }));
    const axis = { stroke: color("--dim"), grid: { stroke: color("--line"), width: 1 }, ticks: { stroke: color("--line"), width: 1 } };
    held.chart?.destroy();
    held.chart = new uPlot({
      width: figure.clientWidth - 18, height: stepped ? 150 : 200, legend: { show: false }, cursor: { show: false }, padding: [8, 26, 0, 0], // room for half of the last label
      scales: { x: { range: (_, low, high) => [low, high] }, y: { range: (_, low, high) => { low = Math.min(0, low ?? 0); high = Math.max(high ?? 1, low + 1e-9); return [low, high + (high - low) * .1]; } } },
      axes: [{ ...axis, size: 32, space: 68, values: clock }, { ...axis, size: 56, values: (_, all) => all.map(short), incrs: stepped ? [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] : undefined }],
      series,
    }, data(figure, held), figure);
    figure.classList.add("drawn");
    const canvas = figure.querySelector("canvas");
    canvas.setAttribute("role", "img");
    describe(figure, held);
  }

  // bridged are values for a line that goes on over seconds without one, unless they are many, or the
  // server was away in them: those are a gap. uPlot takes null for a gap, and undefined for none.
  function bridged(held, row) {
    const longest = held.step > 1 ? 2 : 15, out = row.slice();
    for (let i = 0; i < out.length; i++) {
      let end = i, cut = false;
      for (; end < out.length && out[end] == null; end++) cut ||= held.cuts.has(held.seconds[end]);
      if (end > i && !cut && !held.cuts.has(held.seconds[i - 1]) && end - i <= longest) out.fill(undefined, i, end);
      i = end;
    }
    return out;
  }

  function data(figure, held) {
    const all = [held.seconds, ...held.rows.map((row) => bridged(held, row))];
    if (figure.dataset.target !== undefined) all.push(held.seconds.map(() => Number(figure.dataset.target)));
    return all;
  }

  // gaps counts the gaps between values.
  function gaps(row) {
    let n = 0;
    for (let i = row.findIndex((v) => typeof v === "number") + 1; i > 0 && i < row.length; i++)
      if (typeof row[i] === "number" && row[i - 1] === null) n++;
    return n;
  }

  const lasts = { 1: "Last minute", 10: "Last ten minutes", 60: "Last hour" };

  // describe says the newest values, and how often there was none, to those who don't see the plot.
  function describe(figure, held) {
    const labels = figure.dataset.labels.split("\n");
    const text = labels.map((label, i) => label + " " + (short(held.rows[i]?.at(-1)) || "unknown")).join(", ");
    const missing = Math.max(...held.rows.map((row) => gaps(bridged(held, row))));
    figure.querySelector("canvas")?.setAttribute("aria-label",
      lasts[figure.dataset.minutes] + (missing ? ", with " + missing + (missing === 1 ? " gap" : " gaps") : "") + "; now " + text + (figure.dataset.target !== undefined ? ", target " + figure.dataset.target : ""));
  }

  // spell writes the newest values into the table, so that it says what the plot shows.
  function spell(figure, now) {
    (figure.dataset.rows || "").split(" ").forEach((key, i) => {
      const cell = now?.[i] && key && main.querySelector(`[data-row="${CSS.escape(key)}"]`);
      if (cell && cell.textContent !== now[i]) cell.textContent = now[i];
    });
  }

  function forget(id) {
    plots.get(id)?.chart?.destroy();
    const held = plots.get(id);
    if (held) held.chart = null;
  }

  function plot({ id, last, step, rows, now }) {
    const figure = document.getElementById("plot-" + id);
    if (!figure) return;
    const span = figure.dataset.minutes * 60 / step, least = 60 / step;
    let held = plots.get(id);
    if (!held || held.rows.length !== rows.length) plots.set(id, held = { seconds: [], rows: rows.map(() => []), cuts: new Set(), step });
    const n = rows[0]?.length ?? 0, had = held.seconds.at(-1), to = Math.floor(last / step);
    // All moments have their place, those without a value, too; the newest one may come again. A plot begins a
    // minute before its first value.
    for (let place = had === undefined ? to - Math.max(n, least) + 1 : Math.max(had / step, to - span + 1); place <= to; place++) {
      const i = n - 1 - (to - place), values = rows.map((row) => row[i] ?? null);
      if (!held.seconds.length && to - place >= least && values.every((v) => v == null)) continue;
      if (held.seconds.at(-1) === place * step) {
        if (i >= 0) values.forEach((v, r) => { held.rows[r][held.rows[r].length - 1] = v; });
        continue;
      }
      held.seconds.push(place * step);
      values.forEach((v, r) => held.rows[r].push(v));
    }
    for (const list of [held.seconds, ...held.rows]) list.splice(0, Math.max(0, list.length - span));
    spell(figure, now);
    if (!held.rows.some((row) => row.some((v) => v != null))) { // axes would be made up
      const waiting = figure.querySelector(".waiting");
      if (waiting) waiting.textContent = "There was no value yet.";
      return;
    }
    if (!held.chart || !figure.contains(held.chart.root)) draw(figure, held);
    else { held.chart.setData(data(figure, held)); describe(figure, held); }
  }

  function redraw() {
    for (const [id, held] of plots) {
      const figure = document.getElementById("plot-" + id);
      if (figure && held.chart) draw(figure, held);
    }
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  addEventListener("resize", redraw);

  // copy puts a text on the clipboard, also where the browser has none for pages without TLS.
  async function copy(button) {
    const text = document.getElementById(button.dataset.copy).textContent;
    try { await navigator.clipboard.writeText(text); } catch {
      const area = document.createElement("textarea");
      area.value = text;
      document.body.append(area);
      area.select();
      document.execCommand("copy");
      area.remove();
    }
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = "Copy"; }, 2000);
  }
  addEventListener("click", (event) => { const button = event.target.closest?.(".copy"); if (button) copy(button); });

  // "/" goes to the filter, arrows go through the rows, which Enter opens as any link.
  addEventListener("keydown", (event) => {
    const at = document.activeElement, filter = main.querySelector("input[name=filter]");
    const typing = at.matches("input, textarea, select");
    if (event.key === "/" && !typing && filter) { event.preventDefault(); addEventListener("keyup", () => filter.select(), { once: true }); return; }
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key], links = [...main.querySelectorAll("tbody th a")], i = links.indexOf(at);
    if (!step || event.altKey || event.ctrlKey || event.metaKey || at !== filter && i < 0) return;
    event.preventDefault();
    (links[i + step] ?? (i + step < 0 ? filter : null))?.focus();
  });
  function clocks() {
    for (const at of document.querySelectorAll("time.clock")) at.textContent = new Date(at.dateTime).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
  }
  clocks();
  document.querySelector("header [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" }); // on a phone the others don't fit

  if (!main.dataset.live || !window.EventSource) return;

  // A form applies while one types or ticks: the page follows the address that it makes.
  let typed;
  function apply(event) {
    const form = event.target.form;
    if (!form || !("live" in form.dataset)) return;
    clearTimeout(typed);
    typed = setTimeout(() => {
      const query = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
      main.dataset.live = main.dataset.live.replace(/\?.*/, "") + "?" + query;
      history.replaceState(null, "", "?" + query);
      source?.close();
      open();
    }, 120);
  }
  addEventListener("input", apply);
  addEventListener("submit", (event) => { if ("live" in event.target.dataset) { event.preventDefault(); apply({ target: { form: event.target } }); } });
  let source;
  function say(text) { if (state.textContent !== text) state.textContent = text; }

  // A server that is away says nothing: a banner says since when, and ages become times.
  function away() {
    if (lost) return;
    lost = heard;
    say("Connection lost; the page may be out of date");
    const banner = document.createElement("p");
    banner.id = "outage";
    banner.setAttribute("role", "alert");
    banner.textContent = "No connection to Sluice since " + time(lost) + ". The page shows what was known then.";
    main.before(banner);
    for (const held of plots.values()) held.cuts.add(held.seconds.at(-1));
    for (const age of main.querySelectorAll("time:not(.clock)")) age.textContent = "at " + time(age.dateTime);
  }
  function hear() {
    heard = Date.now();
    if (lost) document.getElementById("outage")?.remove();
    lost = 0;
    say("Live");
  }
  const time = (at) => new Date(at).toLocaleTimeString([], { hourCycle: "h23" });
  // The server sends something every five seconds. A connection that was cut without a word has no error.
  setInterval(() => { if (source && Date.now() - heard > 20000) away(); }, 1000);

  function open() {
    source = new EventSource(main.dataset.live);
    source.onopen = hear;
    const mine = source;
    source.onerror = () => {
      away();
      // A browser gives up after an answer that is no stream, as of a server that is starting.
      if (mine.readyState === EventSource.CLOSED) setTimeout(() => { if (source === mine && !document.hidden) open(); }, 15000);
    };
    source.addEventListener("beat", hear);
    source.addEventListener("content", (event) => {
      hear();
      sync(main, new DOMParser().parseFromString(JSON.parse(event.data), "text/html").body);
      clocks();
      for (const id of plots.keys()) {
        if (!document.getElementById("plot-" + id)) { forget(id); plots.delete(id); } else if (!document.contains(plots.get(id).chart?.root ?? null)) plots.get(id).chart = null;
      }
    });
    source.addEventListener("plot", (event) => { hear(); plot(JSON.parse(event.data)); });
    source.addEventListener("end", (event) => { source.close(); source = null; say("Ended: " + event.data); });
  }
  // A page that nobody sees follows nothing.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) { source?.close(); source = null; } else if (!source) open();
  });
  if (!document.hidden) open();
})();
