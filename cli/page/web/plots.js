// Pictures of numbers: where the time goes, the roofline, the contests of the tuner, the memory plan.

// A bar per size: the kinds of kernels by their share of the time.
function timeBars(method) {
  const bars = el("div", { class: "stack" });
  for (const point of method.points) {
    const sums = new Map();
    let total = 0;
    point.us.forEach((us, s) => { total += us; sums.set(method.steps[s].family, (sums.get(method.steps[s].family) || 0) + us); });
    if (total <= 0) continue;
    bars.append(el("span", {}, point.label || "a run"),
      el("div", {}, [...sums].sort((a, b) => b[1] - a[1]).map(([family, us]) => el("i", {
        style: `--k:${colourOf(family)};width:${(100 * us / total).toFixed(2)}%`,
        "data-tip": family + ": " + timeText(us) + ", " + (100 * us / total).toFixed(1) + " %" }))),
      el("b", {}, timeText(total)));
  }
  return bars;
}

const powerText = (x) => (x >= 1000 ? x / 1000 + "k" : x >= 1 ? String(x) : String(x));

// Operations per byte across, operations per second up, both logarithmic. Roofs are the ceilings of the same compile.
function roofline(program, records, onpick) {
  const c = program.ceilings;
  const points = records.filter((r) => r.gflops > 0 && r.gbps > 0).map((r) => ({ r, x: r.gflops / r.gbps, y: r.gflops }));
  if (!points.length || !(c.read > 0)) return el("p", { class: "dim" }, "Nothing was timed: the program was compiled with --tune=off, or for a device.");
  const roofs = [["int8", c.int8], ["bf16", c.bf16], ["f32", c.f32]].filter(([, y], i, all) => y > 0 && all.findIndex((o) => o[1] === y) === i);
  const W = 760, H = 430, L = 62, R = 16, T = 14, B = 44;
  const xs = points.map((p) => p.x), ys = points.map((p) => p.y);
  const top = Math.max(...roofs.map((r) => r[1]), ...ys);
  const range = (values) => [Math.floor(Math.log10(Math.min(...values))), Math.ceil(Math.log10(Math.max(...values)) + 0.06)];
  const [x0, x1] = range([...xs, top / c.read * 3]), [y0, y1] = range([...ys, top]);
  const X = (v) => L + (Math.log10(v) - x0) / (x1 - x0) * (W - L - R), Y = (v) => H - B - (Math.log10(v) - y0) / (y1 - y0) * (H - T - B);
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot roof", role: "img", "aria-label": "Roofline plot" });
  for (let e = x0; e <= x1; ++e)
    plot.append(svg("line", { x1: X(10 ** e), x2: X(10 ** e), y1: T, y2: H - B, class: "axis" }),
      svg("text", { x: X(10 ** e), y: H - B + 16, class: "tick", "text-anchor": "middle" }, powerText(10 ** e)));
  for (let e = y0; e <= y1; ++e)
    plot.append(svg("line", { x1: L, x2: W - R, y1: Y(10 ** e), y2: Y(10 ** e), class: "axis" }),
      svg("text", { x: L - 6, y: Y(10 ** e) + 4, class: "tick", "text-anchor": "end" }, powerText(10 ** e)));
  plot.append(svg("text", { x: (L + W - R) / 2, y: H - 8, class: "tick", "text-anchor": "middle" }, "operations per byte"),
    svg("text", { x: 14, y: (T + H - B) / 2, class: "tick", "text-anchor": "middle", transform: `rotate(-90 14 ${(T + H - B) / 2})` }, "GF/s"));
  const low = Math.max(10 ** x0, 10 ** y0 / c.read);
  plot.append(svg("line", { x1: X(low), y1: Y(low * c.read), x2: X(top / c.read), y2: Y(top), style: "stroke:var(--text);stroke-width:1.6" }));
  const angle = Math.atan2(Y(10 * c.read) - Y(c.read), X(10) - X(1)) * 180 / Math.PI, middle = Math.sqrt(low * top / c.read);
  plot.append(svg("text", { "text-anchor": "middle", transform: `translate(${X(middle)} ${Y(middle * c.read) - 7}) rotate(${angle})` }, "read " + c.read.toFixed(1) + " GB/s"));
  for (const [name, y] of roofs)
    plot.append(svg("line", { x1: X(y / c.read), y1: Y(y), x2: W - R, y2: Y(y), style: "stroke:var(--text);stroke-width:1.6" }));
  const order = (r) => (r.status === "won" ? 2 : r.status === "reference" ? 1 : 0);
  for (const { r, x, y } of points.sort((a, b) => order(a.r) - order(b.r))) {
    const colour = colourOf(r.family), tip = r.step + ", m = " + r.m + "\n" + (r.candidate || r.kernel) + "\n" + timeText(r.us) + ", " +
      rateText(r.gbps) + " GB/s, " + flopsText(r.gflops) + ", " + shareText(r.share) + " of the roofline\n" + r.status + (r.reason ? ": " + r.reason : "");
    const shape = r.status === "reference"
      ? svg("rect", { x: X(x) - 3.5, y: Y(y) - 3.5, width: 7, height: 7, style: `fill:none;stroke:var(--dim);stroke-width:1.4` })
      : svg("circle", { cx: X(x), cy: Y(y), r: r.status === "won" ? 5 : 3, style: r.status === "won" ? `fill:${colour};stroke:var(--card)` : `fill:${colour};opacity:.4` });
    shape.dataset.tip = tip;
    if (r.module >= 0) shape.addEventListener("click", () => onpick(r.module)), shape.style.cursor = "pointer";
    plot.append(shape);
  }
  for (const [name, y] of roofs)
    plot.append(svg("text", { x: W - R - 4, y: Y(y) - 4, "text-anchor": "end", class: "above" }, name + " " + flopsText(y)));
  return el("div", {}, plot, el("div", { class: "legend" }, "large: won \u00b7 small: other candidates \u00b7 square: a vendor\u2019s kernel"));
}

// The candidates of one contest by how many times as long as the winner they took, 1 to 4 times.
function contestStrip(contest) {
  const W = 300, H = 20, X = (ratio) => 6 + Math.log(Math.min(4, Math.max(1, ratio))) / Math.log(4) * (W - 12);
  const strip = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "strip", preserveAspectRatio: "none", role: "img",
    "aria-label": contest.timed + " timed candidates" });
  strip.append(svg("line", { x1: 6, x2: W - 6, y1: H / 2, y2: H / 2, class: "axis" }));
  for (const r of [...contest.records].reverse()) {
    if (!(r.us > 0) || r.status === "separate") continue;
    const x = X(r.us / contest.best.us), colour = r.status === "reference" ? "var(--dim)" : colourOf(r.family);
    strip.append(r.status === "reference"
      ? svg("rect", { x: x - 3, y: H / 2 - 3, width: 6, height: 6, style: "fill:none;stroke:var(--dim);stroke-width:1.5", "data-tip": recordTip(r, contest) })
      : svg("circle", { cx: x, cy: H / 2, r: r.status === "won" ? 5 : 3, style: `fill:${colour};opacity:${r.status === "won" ? 1 : 0.5}`, "data-tip": recordTip(r, contest) }));
  }
  return strip;
}
const recordTip = (r, contest) => (r.candidate || r.kernel) + "\n" + timeText(r.us) + " \u2014 " + (r.us / contest.best.us).toFixed(2) +
  " times the winner\n" + r.status + (r.reason ? ": " + r.reason : "");

// The block of temporaries: steps across, addresses up.
function memoryMap(method, point) {
  const memory = point.memory;
  if (!memory || memory.temps.length === 0) return el("p", { class: "dim" }, "No step needs memory for temporaries.");
  const W = 1100, H = 360, L = 70, R = 10, T = 22, B = 36, steps = method.steps.length;
  const X = (s) => L + s / steps * (W - L - R), Y = (b) => H - B - b / memory.peak * (H - T - B);
  const plot = svg("svg", { viewBox: `0 0 ${W} ${H}`, class: "plot", role: "img", "aria-label": "Memory plan" });
  for (let i = 0; i <= 4; ++i) {
    const b = memory.peak * i / 4;
    plot.append(svg("line", { x1: L, x2: W - R, y1: Y(b), y2: Y(b), class: "axis" }),
      svg("text", { x: L - 6, y: Y(b) + 4, class: "tick", "text-anchor": "end" }, bytesText(Math.round(b))));
  }
  const every = Math.max(1, Math.ceil(steps / 10));
  for (let s = 0; s < steps; s += every)
    plot.append(svg("text", { x: X(s + 0.5), y: H - B + 16, class: "tick", "text-anchor": "middle" }, s));
  plot.append(svg("text", { x: (L + W - R) / 2, y: H - 4, class: "tick", "text-anchor": "middle" }, "step"));
  const live = new Array(steps).fill(0);
  for (const [bytes, first, last, offset] of memory.temps) {
    const step = method.steps[first];
    for (let s = first; s <= last; ++s) live[s] += bytes;
    plot.append(svg("rect", { x: X(first) + 0.3, width: Math.max(1.2, X(last + 1) - X(first) - 0.6), y: Y(offset + bytes),
      height: Math.max(1, Y(offset) - Y(offset + bytes) - 0.4), rx: 1.5, style: `fill:${colourOf(step.family)};opacity:.75`,
      "data-tip": step.name + " writes it\n" + bytesText(bytes) + " at " + bytesText(offset) + "\nsteps " + first + " to " + last }));
  }
  const most = Math.max(...live), where = live.indexOf(most);
  plot.append(svg("polyline", { points: live.map((b, s) => `${X(s)},${Y(b)} ${X(s + 1)},${Y(b)}`).join(" "), style: "fill:none;stroke:var(--text);stroke-width:1.2" }),
    svg("line", { x1: L, x2: W - R, y1: Y(memory.peak), y2: Y(memory.peak), style: "stroke:var(--bad);stroke-width:1.5;stroke-dasharray:5 4" }),
    svg("text", { x: W - R - 2, y: Y(memory.peak) - 6, "text-anchor": "end", style: "fill:var(--bad)" }, "peak " + bytesText(memory.peak)),
    svg("circle", { cx: X(where + 0.5), cy: Y(most), r: 4, style: "fill:var(--bad)",
      "data-tip": "most alive: " + bytesText(most) + " at step " + where + ", " + method.steps[where].name }));
  return el("div", {}, plot, el("p", { class: "dim" },
    `Peak ${bytesText(memory.peak)} at ${point.label || "fixed sizes"}. At step ${where} (${method.steps[where].name}) ${bytesText(most)} are alive, ` +
    `${(100 * most / memory.peak).toFixed(0)} % of the block; the line shows what is alive, boxes are coloured by the step that writes them.`));
}
