// Charts of uPlot in the colours of the theme and in the width of their place.
import "./language.js";
import uPlot from "./vendor/uplot.min.js";

const HEIGHT = 240;

/** A colour of the theme as the browser computes it; a canvas does not know variables. */
export function color(name) {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

/** A number as text, short enough for an axis. */
export function short(value) {
  if (value === null || value === undefined) return "";
  return Number(value.toPrecision(6)).toString();
}

/** An axis in the colours of the theme. */
export function axis(more = {}) {
  const grid = { stroke: color("line"), width: 1 };
  return { stroke: color("muted"), grid, ticks: grid, values: (_, all) => all.map(short), size: 56, ...more };
}

/** A vertical or horizontal scale; a logarithmic one for positive values only. */
export function scale(isLog) {
  return isLog ? { time: false, distr: 3, log: 10 } : { time: false };
}

/** Draw a chart that keeps the width of its place; returns it. */
export function draw(place, options, data) {
  const width = () => Math.max(200, place.clientWidth);
  const chart = new uPlot({ width: width(), height: HEIGHT, ...options }, data, place);
  const observer = new ResizeObserver(() => {
    if (!place.isConnected) observer.disconnect();
    else if (chart.width !== width()) chart.setSize({ width: width(), height: HEIGHT });
  });
  observer.observe(place);
  return chart;
}
