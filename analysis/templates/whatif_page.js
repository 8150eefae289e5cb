// The page: knobs, their state in the address, tables, what is told.

const GRID = JSON.parse(document.getElementById("grid").textContent);
const byId = (id) => document.getElementById(id);
const START = {
  at: [...GRID.start],
  usd_per_h: Object.fromEntries(Object.entries(GRID.pools).map(([k, p]) => [k, p.usd_per_h])),
  usd_per_gb: {...GRID.usd_per_gb},
  usd_per_gb_month: GRID.usd_per_gb_month,
};
let setting, chosen, hidden, last, saying;

function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// --- knobs ------------------------------------------------------------------------------------

// {id, label, unit, get, set, low, high, isLog}
const KNOBS = [
  ...GRID.axes.map((axis, k) => ({
    id: axis.knob, label: axis.title, unit: axis.unit, group: "runs",
    get: () => setting.at[k], set: (v) => { setting.at[k] = v; },
    low: axis.knots[0], high: axis.knots[axis.knots.length - 1], isLog: axis.knots[0] > 0,
  })),
  ...Object.entries(GRID.pools).map(([name, pool]) => ({
    id: "usd_per_h." + name, label: name, unit: "$ an hour", group: "rent",
    get: () => setting.usd_per_h[name], set: (v) => { setting.usd_per_h[name] = v; },
    low: 0, high: 2 * Math.max(...Object.values(START.usd_per_h), 1), isLog: false,
  })),
  ...GRID.links.map((link) => ({
    id: "usd_per_gb." + link, label: "egress " + link, unit: "$ a GB", group: "bytes",
    get: () => setting.usd_per_gb[link], set: (v) => { setting.usd_per_gb[link] = v; },
    low: 0, high: Math.max(0.12, 2 * START.usd_per_gb[link]), isLog: false,
  })),
  {id: "usd_per_gb_month", label: "storage", unit: "$ a GB-month", group: "bytes",
    get: () => setting.usd_per_gb_month, set: (v) => { setting.usd_per_gb_month = v; },
    low: 0, high: Math.max(0.1, 2 * START.usd_per_gb_month), isLog: false},
];
const NOTCHES = 1000, LEAST = 1e-9, MOST = 1e9;

function placeOf(knob, value) {
  const of = knob.isLog ? Math.log : Number;
  return NOTCHES * (of(value) - of(knob.low)) / (of(knob.high) - of(knob.low));
}

function valueOf(knob, place) {
  const share = place / NOTCHES;
  const exact = knob.isLog ? knob.low * (knob.high / knob.low) ** share
    : knob.low + (knob.high - knob.low) * share;
  const axis = GRID.axes.find((one) => one.knob === knob.id);
  const near = axis && axis.knots.find((knot) => Math.abs(placeOf(knob, knot) - place) < 8);
  return near ?? Number(exact.toPrecision(3));
}

function buildKnobs() {
  for (const knob of KNOBS) {
    const parts = knob.label.split(/(?<=_)/).flatMap((part) => [element("wbr"), part]);
    const label = element("label", {for: knob.id}, ...parts);
    knob.number = element("input", {type: "number", id: knob.id, min: 0, step: "any",
      inputmode: "decimal"});
    knob.range = element("input", {type: "range", min: 0, max: NOTCHES, step: 1,
      "aria-label": `${knob.label}, ${knob.unit}`});
    knob.range.addEventListener("input", () => turn(knob, valueOf(knob, Number(knob.range.value))));
    knob.number.addEventListener("input", () => {
      if (isKnobValue(knob.number.value)) turn(knob, Number(knob.number.value));
    });
    const row = element("div", {class: "knob"}, label, knob.number,
      element("span", {class: "unit"}, knob.unit), knob.range);
    byId("knobs-" + knob.group).append(row);
  }
  for (const kind of ["market", "policy"]) {
    for (const value of new Set(GRID.options.map((option) => option[kind]))) {
      const box = element("input", {type: "checkbox", "data-hide": `${kind} ${value}`});
      box.addEventListener("change", () => {
        hidden[box.checked ? "delete" : "add"](`${kind} ${value}`);
        render();
      });
      byId("show-" + kind).append(element("label", {class: "check"}, box, " " + value));
    }
  }
  for (const side of ["a", "b"]) {
    const select = byId("pair-" + side);
    select.append(element("option", {value: ""}, "chosen for me"));
    for (const option of GRID.options) {
      select.append(element("option", {value: option.name}, option.name));
    }
    select.addEventListener("change", () => { chosen[side] = select.value; render(); });
  }
}

// The same as `turned` takes on the command line: anything else is no number to calculate with.
function isKnobValue(text) {
  const value = text.trim() === "" ? NaN : Number(text);
  return value === 0 || (value >= LEAST && value <= MOST);
}

function turn(knob, value) {
  knob.set(value);
  render();
}

// --- the address ------------------------------------------------------------------------------

function readAddress() {
  setting = structuredClone(START);
  chosen = {a: "", b: ""};
  hidden = new Set();
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    const knob = KNOBS.find((one) => one.id === key);
    if (knob && isKnobValue(value)) knob.set(Number(value));
    const isOption = GRID.options.some((option) => option.name === value);
    if ((key === "a" || key === "b") && isOption) chosen[key] = value;
    const [kind, ...rest] = value.split(" ");
    const isKind = (kind === "market" || kind === "policy") &&
      GRID.options.some((option) => option[kind] === rest.join(" "));
    if (key === "hide" && isKind) hidden.add(value);
  }
}

function address() {
  const told = new URLSearchParams();
  const first = structuredClone(setting);
  setting = structuredClone(START);
  const before = new Map(KNOBS.map((knob) => [knob, knob.get()]));
  setting = first;
  for (const knob of KNOBS) if (knob.get() !== before.get(knob)) told.set(knob.id, knob.get());
  for (const side of ["a", "b"]) if (chosen[side]) told.set(side, chosen[side]);
  for (const what of hidden) told.append("hide", what);
  return "#" + told.toString();
}

// --- what is shown ----------------------------------------------------------------------------

function render() {
  const shown = GRID.options.filter((option) =>
    !hidden.has("market " + option.market) && !hidden.has("policy " + option.policy));
  const grid = {...GRID, options: shown};
  const auto = choosePair(shown.map((option) => outcome(grid, option, setting)));
  const pair = [chosen.a || auto[0], chosen.b || auto[1]];
  if (pair[0] === pair[1]) pair[chosen.b ? 0 : 1] = auto.find((name) => name !== pair[0]) || "";
  last = answers(grid, setting, pair);
  showKnobs();
  byId("sentences").replaceChildren(...last.sentences.map((text, i) =>
    element("p", i ? {} : {class: "lead"}, text)));
  byId("note").textContent = note();
  showTables(last.options);
  showCharts(grid);
  clearTimeout(saying);
  saying = setTimeout(() => { byId("said").textContent = last.sentences[0]; }, 400);
  history.replaceState(null, "", address());
  byId("csv").href = "data:text/csv;charset=utf-8," + encodeURIComponent(csv());
}

function showKnobs() {
  for (const knob of KNOBS) {
    const value = knob.get();
    if (document.activeElement !== knob.number) knob.number.value = Number(value.toPrecision(12));
    // several notches round to one value: put back to its own, arrow keys would never leave it
    if (valueOf(knob, Number(knob.range.value)) !== value) {
      knob.range.value = Math.max(0, Math.min(NOTCHES, placeOf(knob, value)));
    }
    knob.range.setAttribute("aria-valuetext", `${trimmed(value)} ${knob.unit}`);
  }
  for (const box of document.querySelectorAll("[data-hide]")) {
    box.checked = !hidden.has(box.dataset.hide);
  }
  for (const side of ["a", "b"]) byId("pair-" + side).value = chosen[side];
}

function note() {
  const found = GRID.axes.map((axis, k) => [axis, bracket(axis, setting.at[k])]);
  const out = found.filter(([, at]) => at === null).map(([axis]) => axis.title);
  if (out.length) return `Outside the grid in ${out.join(" and ")}: unknown.`;
  const between = found.filter(([, at]) => at[1] !== 0)
    .map(([axis]) => `${axis.title} (${axis.scale} axis)`);
  if (!between.length) return "A point of the grid: these are engine results, priced.";
  return `Interpolated between points of the grid in ${between.join(" and ")}; ` +
    "the table says how far that can be off.";
}

function cell(value, text, attributes = {}) {
  const data = value === null || value === undefined ? {} : {"data-value": value};
  return element("td", {...data, ...attributes}, text);
}

function swatch(option) {
  const line = svg("svg", {width: 26, height: 10, class: "swatch", "aria-hidden": "true"});
  line.append(svg("line", {x1: 0, x2: 26, y1: 5, y2: 5, stroke: colourOf(option),
    "stroke-width": 3, "stroke-dasharray": dashOf(option)}));
  return line;
}

const head = (row) => element("th", {scope: "row"}, swatch(row), row.name);

function optionRow(row) {
  if (!row.known) {
    return element("tr", {"data-option": row.name}, head(row), element("td", {colspan: 8}, "unknown"));
  }
  const error = !row.interpolated ? "engine"
    : row.error === null ? "unknown" : `± ${significant(100 * row.error, 2)} %`;
  const gap = row.gap === null ? "unknown" : row.gap_kind === "exact" ? "as without failures"
    : `${row.gap >= 0 ? "+" : ""}${significant(row.gap, 2)}` +
      (row.gap_error === null ? "" : ` ± ${significant(row.gap_error, 2)}`) + ` ${row.gap_kind}`;
  const best = last.front_without_loss.includes(row.name) ? " ●" : "";
  return element("tr", {"data-option": row.name}, head(row),
    cell(row.usd_per_mtok, usd(row.usd_per_mtok) + best, {"data-key": "usd_per_mtok"}),
    cell(row.hours_per_gtok, significant(row.hours_per_gtok), {"data-key": "hours_per_gtok"}),
    cell(row.error, error, {"data-key": "error"}),
    cell(row.usd, usd(row.usd), {"data-key": "usd"}),
    cell(row.hours, significant(row.hours), {"data-key": "hours"}),
    cell(row.hours_p[1], row.hours_p.map((h) => significant(h)).join(" / "), {"data-key": "p50"}),
    cell(row.full_depth_token_share, significant(100 * row.full_depth_token_share) + " %",
      {"data-key": "full_depth_token_share"}),
    cell(row.gap, gap, {"data-key": "gap"}));
}

function showTables(rows) {
  byId("options").replaceChildren(...[...ranked(rows), ...rows.filter((row) => !row.known)]
    .map(optionRow));
  const known = ranked(rows), most = Math.max(...known.map((row) => row.usd), 0);
  fillTable("bill", known, (row) => row.usd_by, usd, (row) => [row.usd, most]);
  fillTable("traffic", known, (row) => row.gb_by, (gb) => significant(gb), null);
  const rowsOf = last.drivers.filter((driver) => driver.swing > 0);
  const [least, greatest] = [Math.min, Math.max].map((of) =>
    of(...rowsOf.flatMap((driver) => driver.usd_per_mtok)));
  byId("drivers-of").textContent = last.pair ? last.pair[0] : "";
  byId("drivers").replaceChildren(...rowsOf.map((driver) => {
    const ends = driver.usd_per_mtok, share = (v) => 100 * (v - least) / (greatest - least || 1);
    const bar = element("span", {class: "tornado"});
    bar.style.marginLeft = share(Math.min(...ends)) + "%";
    bar.style.width = Math.max(0.7, share(Math.max(...ends)) - share(Math.min(...ends))) + "%";
    return element("tr", {}, element("th", {scope: "row"}, driver.knob),
      cell(ends[0], `${trimmed(driver.moved_to[0])}: ${usd(ends[0])}`),
      cell(ends[1], `${trimmed(driver.moved_to[1])}: ${usd(ends[1])}`),
      element("td", {class: "barcell"}, bar));
  }));
}

function fillTable(id, rows, of, say, bar) {
  const keys = rows.length ? Object.keys(of(rows[0])).filter((key) =>
    rows.some((row) => of(row)[key] > 0)) : [];
  byId(id + "-head").replaceChildren(element("th", {scope: "col"}, "option"),
    ...keys.map((key) => element("th", {scope: "col"}, key)),
    ...(bar ? [element("th", {scope: "col"}, "total"), element("th", {scope: "col"}, "")] : []));
  byId(id).replaceChildren(...rows.map((row) => {
    const made = element("tr", {"data-option": row.name}, head(row),
      ...keys.map((key) => cell(of(row)[key], say(of(row)[key]))));
    if (bar) {
      const [size, most] = bar(row), line = element("span", {class: "bar"});
      line.style.width = 100 * size / (most || 1) + "%";
      line.style.background = colourOf(row);
      made.append(cell(size, say(size)), element("td", {class: "barcell"}, line));
    }
    return made;
  }));
}

function showCharts(grid) {
  byId("legend").replaceChildren(...grid.options.map((option) =>
    element("span", {}, swatch(option), option.name)));
  byId("charts").hidden = !grid.axes.length;
  if (!grid.axes.length) return;
  const axis = grid.axes[0], places = along(axis), at = setting.at[0];
  chart(byId("cost-chart"), {axis, at, yText: usd,
    series: curves(grid, setting, "usd_per_mtok", places),
    alt: `Dollars per million tokens against ${axis.title}. ${last.sentences[0]}`});
  chart(byId("time-chart"), {axis, at, yText: (v) => significant(v, 2),
    series: curves(grid, setting, "hours_per_gtok", places),
    alt: `Hours per billion tokens against ${axis.title}; the numbers are in the table.`});
  const prices = [true, false].map((isSpot) => meanPrice(grid, setting, isSpot));
  const can = last.pair !== null && prices[0] && prices[1];
  const line = can ? evenSeries(grid, setting, last.pair, places) : {points: []};
  byId("even-figure").hidden = !line.points.length;
  if (!line.points.length) return;
  const now = 100 * prices[0] / prices[1];
  byId("even-title").textContent = `Where ${last.pair[0]} and ${last.pair[1]} cost the same`;
  chart(byId("even-chart"), {axis, at, here: now, least: now, most: 200,
    yText: (v) => significant(v) + " %", series: [line],
    alt: `Spot price in percent of the other at which ${last.pair.join(" and ")} cost the same; ` +
      `now ${significant(now)} %.`});
}

function csv() {
  const columns = ["name", "market", "policy", "fallback", "usd_per_mtok", "hours_per_gtok", "error", "usd",
    "hours", "token_share", "full_depth_token_share", "gap", "gap_kind"];
  const quote = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  const knobs = KNOBS.map((knob) => knob.id), values = KNOBS.map((knob) => knob.get());
  const lines = [[...columns, ...knobs], ...last.options.map((row) =>
    [...columns.map((key) => row[key] ?? ""), ...values])];
  return lines.map((line) => line.map((value) => quote(String(value))).join(",")).join("\r\n");
}

buildKnobs();
readAddress();
render();
addEventListener("hashchange", () => { readAddress(); render(); });
addEventListener("resize", () => showCharts({...GRID, options: GRID.options.filter((option) =>
  last.options.some((row) => row.name === option.name))}));
byId("reset").addEventListener("click", () => { location.hash = ""; readAddress(); render(); });
byId("print").addEventListener("click", () => print());
