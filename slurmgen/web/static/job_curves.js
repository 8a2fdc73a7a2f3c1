// The curves of a run: one chart for losses, one for accuracies, and one for each further value.
import { hasEnded, repeat, reply } from "./job_page.js";
import { axis, color, draw, scale, short } from "./job_chart.js";
import { offerLogs } from "./job_log.js";

const SECONDS = 5;
const COLORS = 6;
const GROUPS = [["Loss", /loss|perplexity/i], ["Accuracy", /acc|f1|auc|iou|precision|recall/i]];

const element = (name) => document.getElementById(name);
let files = []; // with curves
let shown = null; // the last reply
const more = new Set(); // the further values that the user chose

/** The values of each chart, by its title. */
function groups(names) {
  const left = new Set(names);
  const found = GROUPS.map(([title, pattern]) => [title, names.filter((name) => pattern.test(name))]);
  for (const [, members] of found) members.forEach((name) => left.delete(name));
  const charts = found.filter(([, members]) => members.length);
  return [charts.length ? charts : [...left].slice(0, 1).map((name) => [name, [name]]), [...left]];
}

/** Values for a scale: a logarithmic one has no place for zero. */
function plotted(values) {
  return element("curves-log").checked ? values.map((value) => (value > 0 ? value : null)) : values;
}

/** One chart. */
function addChart(title, names) {
  const place = document.createElement("div");
  place.className = "chart";
  const heading = document.createElement("h3");
  heading.textContent = title;
  const canvas = document.createElement("div");
  canvas.setAttribute("role", "img");
  const last = names.map((name) => `${name} ${short(shown.values[name].findLast((value) => value !== null)) || "unknown"}`);
  canvas.setAttribute("aria-label", `${title} over ${shown.axis}; last ${last.join(", ")}`);
  place.append(heading, canvas);
  element("charts").append(place);
  const legend = (values) => (_, value, __, at) => short(at === null ? values.findLast((one) => one !== null) : value);
  const series = names.map((name, number) => ({
    label: name, stroke: color(`curve-${number % COLORS}`), width: 2, spanGaps: true,
    points: { show: shown.x.length < 60, size: 5 }, value: legend(shown.values[name]),
  }));
  const options = {
    scales: { x: scale(false), y: scale(element("curves-log").checked) },
    axes: [axis({ size: 36 }), axis()],
    series: [{ label: shown.axis, value: legend(shown.x) }, ...series],
  };
  draw(canvas, options, [shown.x, ...names.map((name) => plotted(shown.values[name]))]);
}

/** All charts, in the colours of the theme. */
function redraw() {
  element("charts").replaceChildren();
  if (!shown?.x.length) return;
  const [charts] = groups(Object.keys(shown.values));
  const own = new Set(charts.flatMap(([, names]) => names));
  const further = [...more].filter((name) => name in shown.values && !own.has(name));
  for (const [title, names] of charts) addChart(title, names);
  for (const name of further) addChart(name, [name]);
}

/** The boxes for further values. */
function offerMore() {
  const [, left] = groups(Object.keys(shown.values));
  const place = element("curves-more");
  place.hidden = left.length === 0;
  for (const name of left) {
    if ([...place.querySelectorAll("input")].some((box) => box.value === name)) continue;
    const label = document.createElement("label");
    label.className = "check";
    const box = document.createElement("input");
    box.type = "checkbox";
    box.value = name;
    box.addEventListener("change", () => { more[box.checked ? "add" : "delete"](name); redraw(); });
    label.append(box, ` ${name}`);
    place.append(label);
  }
}

/** A row of a table. */
function rowOf(cells, tag) {
  const row = document.createElement("tr");
  cells.forEach((cell, column) => {
    const one = document.createElement(tag);
    one.textContent = cell === null ? "" : String(cell);
    if (tag === "th") one.scope = "col";
    if (column) one.className = "number";
    row.append(one);
  });
  return row;
}

/** The same values as a table. */
function fillTable() {
  const names = Object.keys(shown.values);
  const table = element("curves-values").querySelector("table");
  table.tHead.replaceChildren(rowOf([shown.axis, ...names], "th"));
  table.tBodies[0].replaceChildren(
    ...shown.x.map((x, number) => rowOf([x, ...names.map((name) => shown.values[name][number])], "td")),
  );
}

/** Show a reply, if it differs from the last one. */
function show(curves) {
  if (JSON.stringify(curves) === JSON.stringify(shown)) return;
  shown = curves;
  const hasValues = curves.x.length > 0;
  const few = curves.rows > curves.x.length ? `; the chart has ${curves.x.length.toLocaleString("en")} of them` : "";
  element("curves-note").textContent = hasValues ? `${curves.rows.toLocaleString("en")} ${curves.rows === 1 ? "line" : "lines"}${few}` : "The file has no values yet.";
  element("curves-controls").hidden = element("curves-values").hidden = !hasValues;
  if (hasValues) {
    offerMore();
    fillTable();
  }
  redraw();
}

/** Look for files with curves, and for further logs; returns whether to look again. */
async function look() {
  const ended = hasEnded();
  const found = await reply("found");
  if (found.problem) {
    element("curves-note").textContent = found.problem;
    return true;
  }
  offerLogs(found.logs);
  const select = element("curves-file");
  for (const { id, name } of found.metrics) {
    if (![...select.options].some((option) => option.value === id)) select.add(new Option(name, id));
  }
  const hadNone = files.length === 0;
  files = found.metrics;
  if (hadNone && files.length) repeat(read, SECONDS);
  if (!files.length) {
    element("curves-note").textContent = "There is no metrics.jsonl. A line of JSON for each epoch becomes a point, as the bundled training scripts write it.";
  }
  return !ended;
}

/** Read the chosen file; returns whether to read again. */
async function read() {
  const ended = hasEnded();
  const curves = await reply("curves", { file: element("curves-file").value });
  if (curves.problem) element("curves-note").textContent = curves.problem;
  else show(curves);
  return !ended;
}

/** Show the curves from now on. */
export function startCurves() {
  element("curves-log").addEventListener("change", redraw);
  element("curves-file").addEventListener("change", () => { shown = null; read(); });
  addEventListener("themechange", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  repeat(look, 2 * SECONDS);
}
