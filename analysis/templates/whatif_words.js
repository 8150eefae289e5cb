// The conclusion in sentences, and numbers as people read them. analysis/whatif_words.py and
// numbers.py are the reference; a test holds the two together.

function significant(value, digits = 3) {
  if (value === 0) return "0";
  const decimals = digits - 1 - Math.floor(Math.log10(Math.abs(value)));
  const rounded = Number(value.toPrecision(digits));
  const shown = Math.max(0, Math.min(decimals, 12));
  return rounded.toLocaleString("en-US",
    {minimumFractionDigits: shown, maximumFractionDigits: shown});
}

function usd(value) {
  if (value && Math.abs(value) < 1) return "$" + significant(value);
  const shown = Math.abs(value) < 100 ? 2 : 0;
  return "$" + value.toLocaleString("en-US",
    {minimumFractionDigits: shown, maximumFractionDigits: shown});
}

function trimmed(value, digits = 4) {
  const text = significant(value, digits);
  return text.includes(".") ? text.replace(/0+$/, "").replace(/\.$/, "") : text;
}

const ranked = (rows) => rows.filter((row) => row.known)
  .sort((one, other) => one.usd_per_mtok - other.usd_per_mtok);

function choosePair(rows) {
  const known = ranked(rows);
  if (known.length < 2) return [known.length ? known[0].name : "", ""];
  const others = known.slice(1).filter((row) => row.market !== known[0].market);
  return [known[0].name, (others.length ? others : known.slice(1))[0].name];
}

function sentences(grid, told) {
  if (!told.options.length) return ["Nothing is chosen to compare."];
  const rows = ranked(told.options);
  if (!rows.length) return [unknownWords(grid, told.setting.at)];
  const best = rows[0];
  const where = grid.axes.map((axis, k) =>
    `${axis.title} ${trimmed(told.setting.at[k])} ${axis.unit}`.trimEnd()).join(", ");
  const found = [`${best.name} is cheapest: ${usd(best.usd_per_mtok)} per million tokens, ` +
    `${significant(best.hours_per_gtok)} h per billion` + (where ? ` (${where}).` : ".")];
  const cost = (row) => (best.usd_per_mtok === 0 ? usd(row.usd_per_mtok)
    : `${significant(row.usd_per_mtok / best.usd_per_mtok)} times as much`);
  const beside = (row, lead) => `${lead} costs ${cost(row)} and takes ` +
    `${significant(row.hours_per_gtok / best.hours_per_gtok)} times as long.`;
  for (const market of new Set(rows.map((row) => row.market))) {
    if (market === best.market) continue;
    const other = rows.find((row) => row.market === market);
    found.push(beside(other, `The cheapest on ${market}, ${other.name},`));
  }
  const unlike = rows.find((row) => Boolean(row.fallback) !== Boolean(best.fallback));
  if (unlike) {
    const what = unlike.fallback ? "that falls back" : "without a fallback";
    found.push(beside(unlike, `The cheapest ${what}, ${unlike.name},`));
  }
  const safe = rows.find((row) => row.gap_kind === "exact");
  if (safe && best.gap_kind !== "exact") {
    found.push(beside(safe, `The cheapest that trains as if nothing had failed, ${safe.name},`));
  }
  if (told.even && best.usd_per_mtok !== 0) found.push(...evenWords(grid, told));
  found.push(`Not beaten in dollars, hours and loss at once: ${told.front.join(", ")}.`);
  return [...found, lossWords(best)];
}

function unknownWords(grid, at) {
  const out = grid.axes.filter((axis, k) => bracket(axis, at[k]) === null).map((axis) => {
    const ends = [at[grid.axes.indexOf(axis)], axis.knots[0], axis.knots[axis.knots.length - 1]];
    const [value, low, high] = ends.map((one) => trimmed(one, 7));
    return `${axis.title} ${value} is outside ${low} to ${high} ${axis.unit}`;
  });
  if (!out.length) return "Unknown: the runs around this setting have not all finished.";
  return `Unknown: ${out.map((text) => text.trimEnd()).join("; ")}, and nothing is extrapolated.`;
}

function evenWords(grid, told) {
  const [a, b] = told.pair, even = told.even, found = [];
  const factor = even.spot_factor, price = even.spot_usd_per_h, fixed = even.fixed_usd_per_h;
  const width = (of, unit) =>
    (of.half_width === null ? "" : ` ± ${significant(of.half_width * unit, 2)}`);
  if (factor !== null && price && factor.mean === null) {
    found.push(`No spot price makes ${a} and ${b} cost the same with every seed.`);
  } else if (factor !== null && price) {
    const share = 100 * price / fixed;
    const ofFixed = fixed ? `, ${significant(share * factor.mean)}${width(factor, share)} % of ` +
      `the on-demand price (now ${significant(share)} %)` : "";
    found.push(`${a} and ${b} cost the same at a spot price of ` +
      `${usd(price * factor.mean)} an hour${ofFixed}.`);
  }
  const all = grid.axes.map((axis) => even.along[axis.knob]);
  if (all.length && all.every((along) => along.by_seed.every((value) => value === null))) {
    const titles = grid.axes.map((axis) => axis.title).join(", ");
    found.push(`At these prices ${a} stays the cheaper of the two all along ${titles}.`);
  }
  grid.axes.forEach((axis, k) => {
    const along = all[k], seeds = along.by_seed.filter((value) => value !== null).length;
    if (along.mean !== null) {
      const value = `${significant(along.mean)}${width(along, 1)} ${axis.unit}`.trimEnd();
      found.push(`All else equal they cost the same at ${axis.title} ${value}.`);
    } else if (seeds) {
      found.push(`Along ${axis.title} they come to cost the same with ${seeds} of ` +
        `${along.by_seed.length} seeds.`);
    }
  });
  return found;
}

function lossWords(best) {
  if (best.gap_kind === "exact") {
    return `Loss of ${best.name}: that of a run without failures; it ${best.gap_why}.`;
  }
  const through = `${significant(100 * best.full_depth_token_share)} % of the tokens of a run ` +
    "without failures went through all its stages";
  if (best.gap_kind === "unknown") {
    return `Loss of ${best.name}: unknown (${best.gap_why}); ${through}.`;
  }
  const error = best.gap_error === null ? "" : ` ± ${significant(best.gap_error, 2)}`;
  const side = best.gap >= 0 ? "above" : "below";
  return `Loss of ${best.name}: ${significant(Math.abs(best.gap), 2)}${error} nats ${side} a run ` +
    `without failures (${best.gap_kind}, ${best.gap_why}); ${through}.`;
}
