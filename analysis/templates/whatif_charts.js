// Charts as SVG, drawn at the width they have; text never shrinks.

const COLOURS = {"spot": "#0072B2", "on-demand": "#D55E00", "mix": "#009E73", "reserved": "#CC79A7"};
const FALLS_BACK = "#E69F00";
const DASHES = {skip: "", idle: "2 3", wait: "7 4", restart: "2 3"};
const colourOf = (option) => (option.fallback ? FALLS_BACK : COLOURS[option.market] || "#56B4E9");
const dashOf = (option) => DASHES[option.policy.split(" ")[0]] || "";

function svg(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function niceTicks(low, high, count) {
  const raw = (high - low) / count, unit = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].find((m) => m * unit >= raw) * unit;
  const ticks = [];
  for (let t = Math.ceil(low / step) * step; t <= high * (1 + 1e-9); t += step) ticks.push(t);
  return ticks;
}

// series: {points: [[x, y|null]], colour, dash, dots: [[x, y]], band: [[x, low, high]]}
function chart(place, told) {
  const width = Math.max(280, place.clientWidth), height = 260;
  const left = 58, right = 24, top = 10, bottom = 44;
  const xs = told.axis.knots, isLog = xs[0] > 0;
  const of = isLog ? Math.log : Number;
  const x = (v) => left + (of(v) - of(xs[0])) / (of(xs[xs.length - 1]) - of(xs[0])) *
    (width - left - right);
  const highest = Math.max(...told.series.flatMap((s) => s.points.map((p) => p[1] ?? 0)),
    told.least ?? 0) || 1;
  const top_y = Math.min(highest * 1.08, told.most ?? Infinity);
  const y = (v) => height - bottom - Math.min(v, top_y) / top_y * (height - top - bottom);
  const box = svg("svg", {viewBox: `0 0 ${width} ${height}`, width, height, role: "img",
    "aria-label": told.alt});
  for (const t of niceTicks(0, top_y, 4)) {
    box.append(svg("line", {x1: left, x2: width - right, y1: y(t), y2: y(t), class: "rule"}));
    box.append(svg("text", {x: left - 6, y: y(t) + 4, "text-anchor": "end"}, told.yText(t)));
  }
  for (const t of xs) {
    box.append(svg("line", {x1: x(t), x2: x(t), y1: top, y2: height - bottom, class: "rule"}));
    box.append(svg("text", {x: x(t), y: height - bottom + 16, "text-anchor": "middle"},
      trimmed(t)));
  }
  box.append(svg("text", {x: (left + width - right) / 2, y: height - 8, "text-anchor": "middle",
    class: "axis"}, `${told.axis.title}, ${told.axis.unit}`));
  for (const s of told.series) drawSeries(box, s, x, y);
  if (told.at >= xs[0] && told.at <= xs[xs.length - 1]) {
    box.append(svg("line", {x1: x(told.at), x2: x(told.at), y1: top, y2: height - bottom,
      class: "here"}));
    if (told.here !== undefined && told.here !== null) {
      box.append(svg("circle", {cx: x(told.at), cy: y(told.here), r: 5, class: "spot"}));
    }
  }
  place.replaceChildren(box);
}

function drawSeries(box, s, x, y) {
  const known = s.points.filter((p) => p[1] !== null);
  if (s.band && s.band.length) {
    const up = s.band.map(([v, , high]) => `${x(v)},${y(high)}`);
    const down = [...s.band].reverse().map(([v, low]) => `${x(v)},${y(Math.max(0, low))}`);
    box.append(svg("polygon", {points: [...up, ...down].join(" "), fill: s.colour,
      "fill-opacity": 0.16}));
  }
  box.append(svg("polyline", {points: known.map(([v, w]) => `${x(v)},${y(w)}`).join(" "),
    fill: "none", stroke: s.colour, "stroke-width": 2, "stroke-dasharray": s.dash}));
  for (const [v, w] of s.dots || []) {
    if (w !== null) box.append(svg("circle", {cx: x(v), cy: y(w), r: 3, fill: s.colour}));
  }
}

// Values along an axis: the knots, and what lies between them.
function along(axis) {
  const found = [];
  axis.knots.forEach((knot, i) => {
    found.push(knot);
    const next = axis.knots[i + 1];
    for (let n = 1; next !== undefined && n < 6; n++) found.push(knot + (next - knot) * n / 6);
  });
  return found;
}

function curves(grid, setting, key, places) {
  const axis = grid.axes[0];
  const value = (option, v) => {
    const found = outcome(grid, option, moved(setting, 0, v));
    return found.known ? found[key] : null;
  };
  return grid.options.map((option) => ({
    colour: colourOf(option), dash: dashOf(option),
    points: places.map((v) => [v, value(option, v)]),
    dots: axis.knots.map((v) => [v, value(option, v)]),
  }));
}

function evenSeries(grid, setting, pair, places) {
  const [a, b] = pair.map((name) => grid.options.find((o) => o.name === name));
  const share = 100 * meanPrice(grid, setting, true) / meanPrice(grid, setting, false);
  const found = places.map((v) => [v, evenSpotFactor(grid, moved(setting, 0, v), a, b)])
    .filter(([, factor]) => factor !== null && factor.mean !== null);
  return {
    colour: "#40515f", dash: "",
    points: found.map(([v, f]) => [v, share * f.mean]),
    band: found.map(([v, f]) => [v, share * (f.mean - f.half_width), share * (f.mean + f.half_width)]),
  };
}
