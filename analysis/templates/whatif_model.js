"use strict";
// What every option costs at a setting. analysis/interpolation.py, bill.py, breakeven.py and
// penalty.py are the reference; a test holds the two together.

const ON_KNOT = 1e-9, SWING = 0.25, NOT_FREE = 0.01, BISECTIONS = 60;
const sum = (values) => values.reduce((a, b) => a + b, 0);
const mean = (values) => sum(values) / values.length;
const meanKnown = (values) => (values.includes(null) ? null : mean(values));

function bracket(axis, at) {
  const knots = axis.knots, of = axis.scale === "log" ? Math.log : Number;
  for (let i = 0; i < knots.length; i++) {
    if (Math.abs(at - knots[i]) <= ON_KNOT * Math.abs(knots[i])) return [i, 0];
  }
  for (let i = 0; i + 1 < knots.length; i++) {
    if (knots[i] < at && at < knots[i + 1]) {
      return [i, (of(at) - of(knots[i])) / (of(knots[i + 1]) - of(knots[i]))];
    }
  }
  return null;
}

function weights(axes, at) {
  let corners = [[0, 1]];
  for (let k = 0; k < axes.length; k++) {
    const found = bracket(axes[k], at[k]);
    if (found === null) return null;
    const [i, share] = found;
    const sides = share === 0 ? [[i, 1]] : [[i, 1 - share], [i + 1, share]];
    corners = corners.flatMap(([flat, weight]) =>
      sides.map(([side, w]) => [flat * axes[k].knots.length + side, weight * w]));
  }
  return corners;
}

// The runs of every seed as arrays in the order of `quantities`; null where unknown.
function runsAt(grid, option, at) {
  const corners = weights(grid.axes, at);
  if (corners === null || corners.some(([flat]) => option.cells[flat] === null)) return null;
  return option.cells[corners[0][0]].map((first, seed) => first.map((_, q) => {
    const values = corners.map(([flat, weight]) => [option.cells[flat][seed][q], weight]);
    if (values.some(([value]) => value === null)) return null;
    return sum(values.map(([value, weight]) => value * weight));
  }));
}

const read = (grid, run, key) => run[grid.quantities.indexOf(key)];

function dollars(grid, run, setting) {
  const bill = {};
  for (const name of Object.keys(grid.pools)) {
    bill[name] = read(grid, run, "node_h." + name) * setting.usd_per_h[name];
  }
  for (const link of grid.links) {
    bill["egress " + link] = read(grid, run, "gb." + link) * setting.usd_per_gb[link];
  }
  bill.storage = read(grid, run, "gb_months") * setting.usd_per_gb_month;
  return bill;
}

function quantile(ascending, q) {
  const place = q * (ascending.length - 1), low = Math.floor(place);
  const high = Math.min(low + 1, ascending.length - 1);
  return ascending[low] + (ascending[high] - ascending[low]) * (place - low);
}

function penalty(grid, option, share, rounds, measured, isBetween) {
  const told = (kind, gap, error, why) => ({gap_kind: kind, gap, gap_error: error, gap_why: why});
  if (option.policy.split(" ").every((name) => name === "wait" || name === "restart")) {
    return told("exact", 0, 0, "trains as if nothing had failed");
  }
  if (measured !== null && isBetween) {
    return told("interpolated", measured, null, "between its own trained runs");
  }
  if (measured !== null) return told("measured", measured, null, "its own runs were trained");
  const own = grid.responses.find((r) => r.policy === option.policy && r.codec === option.codec);
  if (!own) {
    const why = grid.responses.length ? ` with ${option.policy}, codec ${option.codec}` : "";
    return told("unknown", null, null, "nothing trained" + why);
  }
  const outside = rounds === null || share > own.most_degraded || rounds < own.rounds[0] ||
    rounds > own.rounds[1];
  if (share !== 0 && outside) return told("unknown", null, null, "outside what was trained");
  const gap = share === 0 ? 0 : share * (own.per_share + own.per_log_round * Math.log(rounds));
  return told("interpolated", gap, own.error, `from ${own.points} trained points`);
}

// How far off an interpolated outcome may be: of the axes between whose knots it lies, the most by
// which a corner was missed when it was left out; null where no corner was.
function errorOf(grid, option, at) {
  const corners = weights(grid.axes, at).map(([flat]) => flat);
  let total = 0;
  for (let k = 0; k < grid.axes.length; k++) {
    if (bracket(grid.axes[k], at[k])[1] === 0) continue;
    const near = corners.filter((flat) => flat in option.errors[k]);
    if (!near.length) return null;
    total += Math.max(...near.map((flat) => option.errors[k][flat]));
  }
  return total;
}

function outcome(grid, option, setting) {
  const plain = {name: option.name, market: option.market, policy: option.policy,
    fallback: option.fallback};
  const runs = runsAt(grid, option, setting.at);
  if (runs === null) return {...plain, known: false};
  const bills = runs.map((run) => dollars(grid, run, setting));
  const all = (key) => runs.map((run) => read(grid, run, key));
  const totals = bills.map((bill) => sum(Object.values(bill)));
  const tokens = all("tokens"), hours = all("hours");
  const cost = totals.map((usd, s) => usd / tokens[s] * 1e6);
  const time = hours.map((h, s) => h / tokens[s] * 1e9);
  const sorted = [...hours].sort((a, b) => a - b);
  const off = grid.axes.map((axis, k) => bracket(axis, setting.at[k])[1] !== 0);
  const usdBy = {};
  for (const key of Object.keys(bills[0])) usdBy[key] = mean(bills.map((bill) => bill[key]));
  const kinds = {};
  for (const key of grid.quantities.filter((q) => q.startsWith("kind_gb."))) {
    kinds[key.slice(8)] = mean(all(key));
  }
  const share = mean(all("degraded_share")), rounds = meanKnown(all("outage_rounds"));
  return {
    ...plain, known: true, usd_by: usdBy, usd: mean(totals), hours: mean(hours),
    usd_per_mtok: mean(cost), hours_per_gtok: mean(time),
    hours_p: [0.1, 0.5, 0.9].map((q) => quantile(sorted, q)),
    token_share: mean(all("token_share")),
    full_depth_token_share: mean(all("full_depth_token_share")),
    degraded_share: share, outage_rounds: rounds, cost_by_seed: cost, gb_by: kinds,
    interpolated: off.some(Boolean), error: errorOf(grid, option, setting.at),
    ...penalty(grid, option, share, rounds, meanKnown(all("gap")), off.some(Boolean)),
  };
}

// --- break-even -------------------------------------------------------------------------------

// Half of the 95 % interval of a mean; `t95[n]` comes with the page.
function told(grid, bySeed) {
  const known = bySeed.filter((value) => value !== null), n = bySeed.length;
  if (known.length < n) return {by_seed: bySeed, mean: null, half_width: null};
  const middle = mean(known);
  const variance = n < 2 ? null : sum(known.map((v) => (v - middle) ** 2)) / (n - 1);
  const half = n < 2 ? null : grid.t95 * Math.sqrt(variance / n);
  return {by_seed: bySeed, mean: middle, half_width: half};
}

function evenSpotFactor(grid, setting, a, b) {
  const runs = [a, b].map((option) => runsAt(grid, option, setting.at));
  if (runs.includes(null)) return null;
  const found = [];
  for (let s = 0; s < runs[0].length; s++) {
    const [one, other] = runs.map((of) => {
      const bill = dollars(grid, of[s], setting), tokens = read(grid, of[s], "tokens");
      const spot = Object.keys(bill).filter((k) => grid.pools[k]?.market === "spot");
      const rest = Object.keys(bill).filter((k) => grid.pools[k]?.market !== "spot");
      return [spot, rest].map((keys) => sum(keys.map((k) => bill[k])) / tokens);
    });
    const apart = one[0] - other[0];
    if (Math.abs(apart) <= ON_KNOT * (one[0] + other[0])) return null;
    const factor = (other[1] - one[1]) / apart;
    found.push(factor >= 0 ? factor : null);
  }
  return told(grid, found);
}

function meanPrice(grid, setting, isSpot) {
  const names = Object.keys(grid.pools).filter((k) => (grid.pools[k].market === "spot") === isSpot);
  return names.length ? mean(names.map((name) => setting.usd_per_h[name])) : null;
}

const moved = (setting, k, value) =>
  ({...setting, at: setting.at.map((old, j) => (j === k ? value : old))});

function evenAlong(grid, setting, k, a, b) {
  const cost = (option, value, s) => {
    const there = moved(setting, k, value), runs = runsAt(grid, option, there.at);
    if (runs === null) return null;
    return sum(Object.values(dollars(grid, runs[s], there))) / read(grid, runs[s], "tokens") * 1e6;
  };
  const apart = (value, s) => {
    const [one, other] = [cost(a, value, s), cost(b, value, s)];
    return one === null || other === null ? null : one - other;
  };
  return told(grid, grid.seeds.map((_, s) => root(grid.axes[k].knots, (v) => apart(v, s))));
}

function root(knots, apart) {
  for (let i = 0; i + 1 < knots.length; i++) {
    let [left, right] = [knots[i], knots[i + 1]];
    const [first, last] = [apart(left), apart(right)];
    if (first === null || last === null || (first > 0) === (last > 0)) continue;
    for (let n = 0; n < BISECTIONS; n++) {
      const middle = (left + right) / 2;
      if ((apart(middle) > 0) === (first > 0)) left = middle; else right = middle;
    }
    return (left + right) / 2;
  }
  return null;
}

// --- the front, and what drives the bill ------------------------------------------------------

function front(rows) {
  const keys = ["usd_per_mtok", "hours_per_gtok", "gap"];
  const beats = (one, other) => one.gap !== null && other.gap !== null &&
    keys.every((k) => one[k] <= other[k]) && keys.some((k) => one[k] < other[k]);
  return rows.filter((own) => !rows.some((other) => other !== own && beats(other, own)))
    .map((row) => row.name);
}

function drivers(grid, setting, option) {
  const found = [];
  const add = (knob, to, settings) => {
    const ends = settings.map((one) => outcome(grid, option, one));
    const costs = ends.map((end) => (end.known ? end.usd_per_mtok : null));
    const swing = costs.includes(null) ? 0 : Math.abs(costs[1] - costs[0]);
    found.push({knob, moved_to: to, usd_per_mtok: costs, swing});
  };
  grid.axes.forEach((axis, k) => {
    const at = setting.at[k];
    const lower = axis.knots.filter((knot) => knot < at * (1 - ON_KNOT));
    const higher = axis.knots.filter((knot) => knot > at * (1 + ON_KNOT));
    const to = [lower.length ? Math.max(...lower) : at, higher.length ? Math.min(...higher) : at];
    add(axis.title, to, to.map((value) => moved(setting, k, value)));
  });
  for (const market of new Set(Object.values(grid.pools).map((pool) => pool.market))) {
    const to = [1 - SWING, 1 + SWING];
    add("price " + market, to, to.map((factor) => ({...setting, usd_per_h: Object.fromEntries(
      Object.entries(setting.usd_per_h).map(([name, usd]) =>
        [name, grid.pools[name].market === market ? usd * factor : usd]))})));
  }
  for (const link of grid.links) {
    const price = setting.usd_per_gb[link];
    const to = [price * (1 - SWING), price * (1 + SWING) || NOT_FREE];
    add("egress " + link, to, to.map((p) =>
      ({...setting, usd_per_gb: {...setting.usd_per_gb, [link]: p}})));
  }
  const price = setting.usd_per_gb_month, to = [price * (1 - SWING), price * (1 + SWING)];
  add("storage", to, to.map((p) => ({...setting, usd_per_gb_month: p})));
  return found.sort((one, other) => other.swing - one.swing);
}

function answers(grid, setting, pair) {
  const rows = grid.options.map((option) => outcome(grid, option, setting));
  const known = rows.filter((row) => row.known);
  const names = pair || choosePair(rows);
  const [a, b] = names.map((name) =>
    known.some((row) => row.name === name) ? grid.options.find((o) => o.name === name) : null);
  const result = {
    setting, options: rows, front: front(known),
    front_without_loss: front(known.map((row) => ({...row, gap: 0}))),
    pair: a && b ? names : null, even: null, drivers: a ? drivers(grid, setting, a) : [],
  };
  if (a && b) {
    result.even = {
      spot_factor: evenSpotFactor(grid, setting, a, b),
      spot_usd_per_h: meanPrice(grid, setting, true),
      fixed_usd_per_h: meanPrice(grid, setting, false),
      along: Object.fromEntries(grid.axes.map((axis, k) =>
        [axis.knob, evenAlong(grid, setting, k, a, b)])),
    };
  }
  return {...result, sentences: sentences(grid, result)};
}
