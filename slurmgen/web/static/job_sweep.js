// The runs of a sweep: a table that sorts, and a chart of one value against another.
import { hasEnded, repeat, reply } from "./job_page.js";
import { axis, color, draw, scale, short } from "./job_chart.js";

const SECONDS = 20;
const MOST_ROWS = 1000;
const TELLING = /acc|loss|score|error/i; // what a sweep is mostly made for

const element = (name) => document.getElementById(name);
let sweep = null; // the last reply
let sorted = { column: 0, descending: false };

/** Whether a metric only repeats the parameter of its name: both have the same number in every run. */
function repeats(metric, number) {
  const parameter = sweep.parameters.indexOf(metric);
  return parameter >= 0 && sweep.runs.every((run) => run.metrics[number] === null || run.metrics[number] === numberOf(run.parameters[parameter]));
}

/** The columns: a name, whether it is of numbers, and the value of a run. */
function columns() {
  const of = (kind) => (name, number) => ({ name, kind, value: (run) => run[kind][number] });
  const metrics = sweep.metrics.map(of("metrics")).filter(({ name }, number) => !repeats(name, number));
  const measured = (column) => (sweep.parameters.includes(column.name) ? { ...column, name: `${column.name} (measured)` } : column);
  return [
    { name: "task", kind: "task", value: (run) => run.task },
    ...sweep.parameters.map(of("parameters")),
    { name: "state", kind: "state", value: (run) => run.state },
    ...metrics.map(measured),
  ];
}

/** A cell with the button that cancels the task of a run, or submits it again. */
function actionOf(run) {
  const cell = document.createElement("td");
  cell.className = "actions";
  const name = run.ended ? "Resubmit" : "Cancel";
  const [path, query] = run.url.split("?");
  const button = Object.assign(document.createElement("button"), { type: "button", className: "quiet", textContent: name });
  button.id = `action-${run.task}`;
  button.ariaLabel = `${name} task ${run.task}`;
  button.setAttribute("hx-get", `${path}/${name.toLowerCase()}?${query}`);
  button.setAttribute("hx-target", "#dialog-body");
  cell.append(button);
  return cell;
}

/** A value as a number; NaN for another text. */
function numberOf(value) {
  return value === null || value === "" ? NaN : Number(value);
}

/** Compare two values: numbers as numbers, what is missing at the end. */
function compared(a, b, descending) {
  const missing = (value) => value === null || value === "";
  if (missing(a) || missing(b)) return missing(a) - missing(b);
  const [x, y] = [numberOf(a), numberOf(b)];
  const order = Number.isNaN(x) || Number.isNaN(y) ? String(a).localeCompare(String(b), "en", { numeric: true }) : x - y;
  return descending ? -order : order;
}

/** A heading that sorts. */
function headingOf({ name, kind }, number) {
  const cell = document.createElement("th");
  cell.scope = "col";
  if (kind === "metrics") cell.className = "number";
  if (sorted.column === number) cell.ariaSort = sorted.descending ? "descending" : "ascending";
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = name;
  button.addEventListener("click", () => {
    sorted = { column: number, descending: sorted.column === number && !sorted.descending };
    fillTable();
    element("sweep-table").tHead.querySelectorAll("button")[number].focus();
  });
  cell.append(button);
  return cell;
}

/** A cell: of a task, a link to its page. */
function cellOf(column, run) {
  const cell = document.createElement("td");
  const value = column.value(run);
  if (column.kind === "task") {
    const link = document.createElement("a");
    link.href = run.url;
    link.textContent = value;
    cell.append(link);
  } else {
    cell.textContent = column.kind === "metrics" ? short(value) : value;
  }
  cell.className = column.kind === "metrics" ? "number" : column.kind === "state" ? run.tone : "mono";
  return cell;
}

/** The table, in the chosen order. */
function fillTable() {
  const all = columns();
  const { column, descending } = sorted;
  const value = (all[column] ?? all[0]).value;
  const runs = [...sweep.runs].sort((a, b) => compared(value(a), value(b), descending)).slice(0, MOST_ROWS);
  const table = element("sweep-table");
  const heading = document.createElement("tr");
  heading.append(...all.map(headingOf), document.createElement("td"));
  table.tHead.replaceChildren(heading);
  table.tBodies[0].replaceChildren(...runs.map((run) => {
    const row = document.createElement("tr");
    row.append(...all.map((one) => cellOf(one, run)), actionOf(run));
    return row;
  }));
  htmx.process(table);
  table.hidden = false;
}

/** The columns that an axis may have: all but state and task. */
function axes() {
  return columns().filter(({ kind }) => kind === "parameters" || kind === "metrics");
}

/** The place of each run on an axis; texts are numbered in their order. */
function placesOf(column) {
  const values = sweep.runs.map(column.value);
  const numbers = values.map(numberOf);
  const isText = column.kind === "parameters" && numbers.some((number, at) => Number.isNaN(number) && values[at] !== "");
  if (!isText) return { numbers, labels: null };
  const labels = [...new Set(values)];
  return { numbers: values.map((value) => labels.indexOf(value)), labels };
}

/** The runs with a place on both axes, from left to right. */
function points() {
  const [x, y] = ["x", "y"].map((name) => axes()[element(`sweep-${name}`).value]);
  const [left, up] = [placesOf(x), placesOf(y)];
  const fits = (value, name, labels) => Number.isFinite(value) && (labels || !isLog(name) || value > 0);
  const found = sweep.runs
    .map((run, at) => ({ run, x: left.numbers[at], y: up.numbers[at] }))
    .filter((point) => fits(point.x, "x", left.labels) && fits(point.y, "y", up.labels))
    .sort((a, b) => a.x - b.x);
  return { found, x, y, left, up };
}

/** Whether an axis is logarithmic. */
function isLog(name) {
  return element(`sweep-${name}-log`).checked;
}

/** An axis with numbers, or with the texts of a parameter. */
function axisOf(column, labels, more) {
  const values = labels
    ? { values: (_, all) => all.map((at) => (Number.isInteger(at) ? labels[at] ?? "" : "")) }
    : {};
  return axis({ label: column.name, labelSize: 22, ...values, ...more });
}

/** A range with room at both ends, so that no point is cut. */
function range(isLogarithmic) {
  return (_, low, high) => {
    if (low === null) return isLogarithmic ? [1, 10] : [0, 1];
    if (isLogarithmic) return [10 ** Math.floor(Math.log10(low / 1.2)), 10 ** Math.ceil(Math.log10(high * 1.2))];
    const room = (high - low || Math.abs(high) || 1) * 0.08;
    return [low - room, high + room];
  };
}

/** The point that is nearest to a place on the chart, within some pixels. */
function nearest(chart, found, left, top) {
  const distance = ({ x, y }) => Math.hypot(chart.valToPos(x, "x") - left, chart.valToPos(y, "y") - top);
  const best = found.reduce((a, b) => (a && distance(a) <= distance(b) ? a : b), null);
  return best && distance(best) < 24 ? best : null;
}

/** What a point is, in words. */
function described({ run }) {
  const named = (names, values) => names.map((name, at) => `${name}=${typeof values[at] === "number" ? short(values[at]) : values[at]}`);
  return [run.task, ...named(sweep.parameters, run.parameters), ...named(sweep.metrics, run.metrics), run.state].join("  ");
}

/** The chart of the two chosen values. */
function plot() {
  const place = element("sweep-chart");
  place.replaceChildren();
  const { found, x, y, left, up } = points();
  place.ariaLabel = `${y.name} over ${x.name}: ${found.length} of ${sweep.runs.length} runs`;
  if (!found.length) {
    element("sweep-point").textContent = "No run has both values yet.";
    return;
  }
  const options = {
    legend: { show: false },
    cursor: { points: { show: false }, drag: { x: false, y: false } },
    scales: {
      x: { ...scale(isLog("x") && !left.labels), range: range(isLog("x") && !left.labels) },
      y: { ...scale(isLog("y") && !up.labels), range: range(isLog("y") && !up.labels) },
    },
    axes: [axisOf(x, left.labels, { size: 36 }), axisOf(y, up.labels, {})],
    series: [{}, { stroke: color("curve-0"), paths: () => null, points: { show: true, size: 9, fill: color("curve-0") } }],
  };
  const chart = draw(place, options, [found.map((one) => one.x), found.map((one) => one.y)]);
  const at = () => nearest(chart, found, chart.cursor.left, chart.cursor.top);
  chart.over.addEventListener("mousemove", () => {
    const point = at();
    if (point) element("sweep-point").textContent = described(point);
  });
  chart.over.addEventListener("click", () => {
    const point = at();
    if (point) location.assign(point.run.url);
  });
}

/** Whether positive values differ by so much that only a logarithmic axis shows them. */
function isWide(column) {
  const values = placesOf(column).numbers.filter(Number.isFinite);
  return Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 50;
}

/** Offer the axes; at first, a parameter against a loss or another measured value. */
function offerAxes() {
  const all = axes();
  for (const name of ["x", "y"]) {
    const select = element(`sweep-${name}`);
    const before = select.selectedOptions[0]?.textContent;
    select.replaceChildren(...all.map((column, at) => new Option(column.name, at)));
    const wanted = all.findIndex((column) => column.name === before);
    const telling = all.findIndex(({ kind, name: metric }) => kind === "metrics" && TELLING.test(metric));
    const usual = name === "x" ? 0 : telling >= 0 ? telling : Math.max(all.findIndex(({ kind }) => kind === "metrics"), 0);
    select.value = wanted >= 0 ? wanted : usual;
    if (wanted < 0) element(`sweep-${name}-log`).checked = isWide(all[select.value]);
  }
}

/** Show a reply, if it differs from the last one. */
function show(found) {
  if (JSON.stringify(found) === JSON.stringify(sweep)) return;
  sweep = found;
  const measured = found.runs.filter((run) => run.metrics.some((value) => value !== null)).length;
  const more = found.runs.length > MOST_ROWS ? `; the table has ${MOST_ROWS} of them` : "";
  element("sweep-note").textContent = `${found.runs.length} runs, ${measured} with measured values${more}`;
  element("sweep-plot").hidden = measured === 0;
  fillTable();
  if (measured === 0) return;
  offerAxes();
  plot();
}

/** Read the sweep; returns whether to read again. */
async function read() {
  const ended = hasEnded();
  const found = await reply("sweep");
  if (found.problem) element("sweep-note").textContent = found.problem;
  else show(found);
  return !ended;
}

/** Show the runs from now on. */
export function startSweep() {
  for (const name of ["sweep-x", "sweep-y", "sweep-x-log", "sweep-y-log"]) element(name).addEventListener("change", plot);
  element("sweep-again").addEventListener("click", read);
  element("state").addEventListener("htmx:afterSwap", read);
  const redraw = () => { if (sweep && !element("sweep-plot").hidden) plot(); };
  addEventListener("themechange", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  repeat(read, SECONDS);
}
