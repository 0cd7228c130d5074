// The sections of the page, from top to bottom.
const program = report.programs[0], other = report.programs[1] || null;

function openKernel(of, index) {
  const kernel = of.kernels[index];
  const records = of.records.filter((r) => r.module === index);
  openDialog(kernel.name,
    el("p", {}, chip(kernel.family, kernel.kind), " \u00b7 ", count(kernel.steps, "step"), records.length ? " \u00b7 problem " : "",
      records.length ? el("code", {}, records[0].problem) : null),
    records.length ? recordTable(records) : null,
    el("h3", {}, "Source, " + kernel.file),
    kernel.source === null ? el("p", { class: "dim" }, kernel.why) : highlighted(kernel.source),
    el("p", { class: "dim" }, "Assembly: ", el("code", {}, `objdump -d --no-show-raw-insn ${of.path}/${kernel.object}`)));
}

const statusCell = (r) => el("span", { class: r.status === "won" || r.status === "extern" ? "good" : ["wrong", "crashed", "failed to build"].includes(r.status) ? "bad" : "" },
  r.status + (r.reason && !r.reason.startsWith(r.status) ? ": " + r.reason : r.reason.slice(r.status.length)));

function recordTable(records) {
  return sortableTable([
    { title: "m", num: true, value: (r) => r.m },
    { title: "candidate", name: true, value: (r) => r.candidate || r.kernel, show: (r) => el("span", { class: "mono" }, r.candidate || r.kernel) },
    { title: "time", num: true, value: (r) => r.us || Infinity, show: (r) => (r.noisy ? "~" : "") + timeText(r.us) },
    { title: "\u00b1", num: true, narrow: true, help: "half the distance from p10 to p90, of the median", value: (r) => (r.us > 0 ? (r.p90 - r.p10) / 2 / r.us : 0), show: (r) => (r.us > 0 ? ((r.p90 - r.p10) / 2 / r.us * 100).toFixed(1) + " %" : "") },
    { title: "GB/s", num: true, value: (r) => r.gbps, show: (r) => rateText(r.gbps) },
    { title: "GF/s", num: true, value: (r) => r.gflops, show: (r) => (r.gflops > 0 ? r.gflops.toFixed(0) : "-") },
    { title: "roofline", num: true, value: (r) => r.share, show: (r) => shareText(r.share) },
    { title: "built", num: true, narrow: true, value: (r) => (r.hit ? 0 : r.build), show: (r) => (r.status === "reference" ? "" : r.hit ? "cached" : r.build.toFixed(2) + " s") },
    { title: "status", name: true, value: (r) => r.status, show: statusCell },
  ], records, { sort: 2, descending: false, most: 60 });
}

// Records of one problem in one range of m, with the winner and what is behind it.
function contestsOf(records) {
  const groups = new Map();
  for (const r of records) {
    const key = r.problem + "\n" + r.m_min;
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(r);
  }
  return [...groups.values()].map((list) => {
    const timed = list.filter((r) => r.us > 0 && r.status !== "separate"), reference = timed.filter((r) => r.status === "reference");
    const best = list.find((r) => r.status === "won" || r.status === "extern") || timed[0] || list[0];
    const ours = timed.filter((r) => r.status !== "reference");
    return {
      records: list, best, timed: timed.length, candidates: list.filter((r) => r.status !== "reference" && r.status !== "separate").length,
      failed: list.filter((r) => ["wrong", "crashed", "failed to build"].includes(r.status)),
      gain: ours.length > 1 ? Math.max(...ours.map((r) => r.us)) / best.us : 0,
      against: reference.length ? Math.min(...reference.map((r) => r.us)) / best.us : 0,
    };
  });
}

const card = (title, value, note) => el("div", { class: "card" }, el("span", {}, title), el("b", {}, value), note ? el("span", {}, note) : null);

function bulleted(items) {
  return el("ul", {}, items.map((text) => el("li", {}, text)));
}

function signatureTable(s) {
  const rows = [];
  for (const [what, tensors] of [["input", s.inputs], ["output", s.outputs], ["state", s.states]])
    for (const t of tensors) rows.push({ what, name: t.name, type: t.dtype + " [" + t.shape.join(", ") + "]" });
  for (const t of s.symbols) rows.push({ what: "symbol", name: t.name, type: t.max === null ? t.min + " or more" : t.min + " to " + t.max });
  return sortableTable([
    { title: "what", value: (r) => r.what }, { title: "name", name: true, value: (r) => r.name, show: (r) => el("code", {}, r.name) },
    { title: "type", value: (r) => r.type }], rows, { most: 12 });
}

function header() {
  document.title = program.name + " \u2014 qcodegen report";
  $("title").textContent = program.name + (other ? " compared with " + other.name : "");
  const made = [program.target, "qcodegen " + program.generator, program.tuned ? "tuned " + program.tuned : "not tuned", program.machine];
  $("subtitle").textContent = made.filter(Boolean).join(" \u00b7 ");
  $("footer").textContent = `Made by qcodegen ${report.version} on ${report.generated}. This file contains its data and loads nothing.`;
}

// Sections that depend on the method and on the sizes are drawn again when one is chosen.
let method = program.methods[0];
const sized = [];
let pointIndex = Math.max(0, method.points.findIndex((p) => p.us.some((us) => us > 0)));
const point = () => method.points[pointIndex] || method.points[0];
function sizeChooser() {
  if (method.points.length < 2) return null;
  return select("at", method.points.map((p, i) => [String(i), p.label]), String(pointIndex), (value) => {
    pointIndex = Number(value);
    sized.forEach((draw) => draw());
  });
}

function overview() {
  const timed = method.points.filter((p) => p.us.some((us) => us > 0));
  const total = (p) => p.us.reduce((a, b) => a + b, 0);
  const cards = el("div", { class: "cards" },
    card("Steps", count(method.steps.length, "step"), count(program.kernels.length, "kernel") + (program.input.nodes ? ` of ${program.input.nodes} nodes` : "")),
    card("Size", bytesText(program.bytes.total), bytesText(program.bytes.weights) + " of weights"),
    timed.length ? card("Kernels one by one", timeText(total(timed[0])), timed[0].label || "fixed sizes") : null,
    timed.length > 1 ? card("Kernels one by one", timeText(total(timed[timed.length - 1])), timed[timed.length - 1].label) : null,
    card("Compile", program.cost.wall > 0 ? program.cost.wall.toFixed(1) + " s" : "-", count(program.cost.compiler_runs, "compiler run") + ", " + program.cost.hits + " from cache"),
    card("Verified", program.verified.scope !== "program" ? program.verified.scope : program.verified.unchecked.length ? "in part" : "as a whole", program.verified.text));
  $("main").append(cards);
  const warnings = [...program.warnings, ...(program.why_not_here ? ["This host cannot run it: " + program.why_not_here] : [])];
  if (warnings.length) $("main").append(el("section", { class: "warning", id: "warnings" }, el("h2", {}, "Warnings"), bulleted(warnings)));
  if (program.methods.length > 1)
    $("main").append(el("p", { class: "bar" }, select("Method", program.methods.map((m, i) => [String(i), m.name]), "0", (value) => {
      method = program.methods[Number(value)], pointIndex = 0;
      sized.forEach((draw) => draw());
    })));
}

// A section whose contents are made anew for the method and the sizes at hand.
function sizedSection(id, title, make) {
  const body = el("div"), draw = () => body.replaceChildren(...make().flat().filter(Boolean));
  section(id, title, body);
  sized.push(draw);
  draw();
}

function timeSection() {
  sizedSection("time", "Where the time goes", () => {
    if (!method.points.some((p) => p.us.some((us) => us > 0)))
      return [el("p", { class: "dim" }, "The program was not tuned, so there are no times. Compile it without --tune=off, or use ", el("code", {}, "qcodegen run --profile"), ".")];
    const at = point(), total = at.us.reduce((a, b) => a + b, 0);
    const rows = method.steps.map((step, s) => ({ step, s, us: at.us[s], kernel: at.kernel[s], record: at.record[s] >= 0 ? program.records[at.record[s]] : null }));
    return [
      el("p", { class: "dim" }, "The sum of the kernels as the tuner timed them one by one, with cold weights. ", el("code", {}, "qcodegen run --profile"), " measures them in a run."),
      timeBars(method), legend(method.steps.map((s) => s.family)),
      el("div", { class: "bar" }, el("h3", { style: "margin:0;flex:1" }, "Steps"), sizeChooser()),
      sortableTable([
        { title: "#", num: true, value: (r) => r.s },
        { title: "step", name: true, value: (r) => r.step.name, show: (r) => el("button", { type: "button", class: "link", onclick: () => openKernel(program, r.kernel) }, r.step.name) },
        { title: "kind", value: (r) => r.step.kind, show: (r) => chip(r.step.family, r.step.kind) },
        { title: "time", num: true, value: (r) => r.us, show: (r) => timeText(r.us) },
        { title: "of run", num: true, value: (r) => r.us, show: (r) => [(total > 0 ? (100 * r.us / total).toFixed(1) : "0") + " %"].concat(meter(total > 0 ? r.us / Math.max(...at.us) : 0)).reduce((a, b) => { a.append(b); return a; }, el("span")) },
        { title: "roofline", num: true, value: (r) => (r.record ? r.record.share : 0), show: (r) => shareText(r.record ? r.record.share : 0) },
        { title: "module", name: true, narrow: true, value: (r) => r.step.module },
        { title: "formula", name: true, narrow: true, value: (r) => r.step.formula, show: (r) => el("code", {}, r.step.formula) },
      ], rows, { sort: 3, most: 15 }),
    ];
  });
}

function kernelSection() {
  const won = program.records.map((r, i) => ({ r, i })).filter(({ r }) => (r.status === "won" || r.status === "extern") && r.us > 0).map(({ r }) => r);
  if (!won.length) return;
  const ms = [...new Set(won.map((r) => r.m))].sort((a, b) => a - b);
  const best = new Map(contestsOf(program.records).map((c) => [c.best, c]));
  const table = sortableTable([
    { title: "kernel", name: true, value: (r) => r.step, show: (r) => (r.module >= 0 ? el("button", { type: "button", class: "link", onclick: () => openKernel(program, r.module) }, r.step) : r.step) },
    { title: "kind", value: (r) => r.kind, show: (r) => chip(r.family, r.kind) },
    { title: "n\u00d7k", num: true, narrow: true, value: (r) => r.n * Math.max(1, r.k), show: (r) => (r.k ? r.n + "\u00d7" + r.k : String(r.n)) },
    { title: "m", num: true, value: (r) => r.m },
    { title: "time", num: true, value: (r) => r.us, show: (r) => (r.noisy ? "~" : "") + timeText(r.us) },
    { title: "GB/s", num: true, value: (r) => r.gbps, show: (r) => rateText(r.gbps) },
    { title: "GF/s", num: true, value: (r) => r.gflops, show: (r) => (r.gflops > 0 ? r.gflops.toFixed(0) : "-") },
    { title: "roofline", num: true, value: (r) => r.share, show: (r) => el("span", {}, shareText(r.share), meter(r.share)) },
    { title: "steps", num: true, narrow: true, value: (r) => (r.module >= 0 ? program.kernels[r.module].steps : 0) },
    { title: "vendor", num: true, help: "the time of the fastest vendor\u2019s kernel divided by this one\u2019s", value: (r) => best.get(r)?.against || 0, show: (r) => { const a = best.get(r)?.against || 0; return a > 0 ? a.toFixed(2) + "\u00d7" : "-"; } },
    { title: "candidate", name: true, narrow: true, value: (r) => r.candidate, show: (r) => el("span", { class: "mono" }, r.candidate) },
  ], won, { sort: 4, most: 20 });
  const choose = select("m", [["all", "all"], ...ms.map((m) => [String(m), String(m)])], "all",
    (value) => table.setRows(value === "all" ? won : won.filter((r) => String(r.m) === value)));
  section("kernels", "Kernels", el("div", { class: "bar" }, el("span", { class: "dim", style: "flex:1" }, "The winners. A name opens the source and the candidates; ~ marks what other processes disturbed."), choose), table);
}

function rooflineSection() {
  const holder = el("div"), labels = [...new Set(program.records.filter((r) => r.family === "gemm").map((r) => r.step))];
  const draw = (name) => holder.replaceChildren(roofline(program, name === "all" ? program.records : program.records.filter((r) => r.step === name), (m) => openKernel(program, m)));
  draw("all");
  section("roofline", "Roofline", el("div", { class: "bar" },
    el("span", { class: "dim", style: "flex:1" }, program.ceilings.read > 0 ? `Ceilings on ${count(program.ceilings.threads, "thread")}, measured by the compile. Every timed candidate is a point.` : ""),
    labels.length > 1 ? select("kernel", [["all", "all"], ...labels.map((l) => [l, l])], "all", draw) : null), holder, legend(program.records.filter((r) => r.gflops > 0).map((r) => r.family)));
}

function tuningSection() {
  const contests = contestsOf(program.records).filter((c) => c.best.us > 0);
  const failed = program.records.filter((r) => ["wrong", "crashed", "failed to build"].includes(r.status));
  if (!contests.length && !failed.length) return;
  const parts = [];
  if (program.merges.length)
    parts.push(el("h3", {}, "Fusions, measured against the same work apart"), sortableTable([
      { title: "linears", name: true, value: (r) => r.step }, { title: "m", num: true, value: (r) => r.m },
      { title: "fused", num: true, value: (r) => r.fused, show: (r) => timeText(r.fused) }, { title: "apart", num: true, value: (r) => r.apart, show: (r) => timeText(r.apart) },
      { title: "apart takes", num: true, value: (r) => r.apart / r.fused, show: (r) => (r.apart / r.fused).toFixed(2) + "\u00d7" },
      { title: "verdict", value: (r) => r.verdict }],
      program.merges.flatMap((m) => m.timings.map(([at, fused, apart]) => ({ step: m.step, m: at, fused, apart, verdict: m.verdict }))), { most: 12 }));
  if (failed.length)
    parts.push(el("h3", { class: "bad" }, count(failed.length, "candidate") + " failed"), sortableTable([
      { title: "kernel", name: true, value: (r) => r.step }, { title: "m", num: true, value: (r) => r.m },
      { title: "candidate", name: true, value: (r) => r.candidate, show: (r) => el("span", { class: "mono" }, r.candidate) },
      { title: "what happened", name: true, value: (r) => r.status, show: statusCell }], failed, { most: 8 }));
  const rivals = contests.filter((c) => c.timed > 1);
  parts.push(el("h3", {}, "Contests"), el("p", { class: "dim" }, "A dot is a candidate, at its time divided by the winner\u2019s: the winner at the left, four times as long at the right. Squares are a vendor\u2019s."),
    sortableTable([
      { title: "kernel", name: true, value: (c) => c.best.step, show: (c) => el("button", { type: "button", class: "link", onclick: () => openDialog(c.best.step + ", m = " + c.best.m, recordTable(c.records)) }, c.best.step) },
      { title: "m", num: true, value: (c) => c.best.m },
      { title: "candidates", num: true, value: (c) => c.candidates },
      { title: "time behind the winner", value: (c) => c.gain, show: contestStrip },
      { title: "slowest", num: true, value: (c) => c.gain, show: (c) => (c.gain > 0 ? c.gain.toFixed(2) + "\u00d7" : "-") },
      { title: "vendor", num: true, value: (c) => c.against, show: (c) => (c.against > 0 ? c.against.toFixed(2) + "\u00d7" : "-") },
      { title: "won by", name: true, narrow: true, value: (c) => c.best.candidate, show: (c) => el("span", { class: "mono" }, c.best.candidate) },
    ], rivals, { most: 15, empty: "no kernel had rivals" }));
  section("tuning", "Tuning", ...parts);
}

function memorySection() {
  sizedSection("memory", "Memory", () => [
    el("div", { class: "bar" }, el("span", { class: "dim", style: "flex:1" },
      `${bytesText(program.bytes.weights)} of weights, ${bytesText(program.bytes.state)} of state, and one block for temporaries:`), sizeChooser()),
    memoryMap(method, point())]);
}

function compileSection() {
  const c = program.cost, misses = Object.entries(program.misses), fresh = new Map();
  for (const r of program.records) if (r.key && r.status !== "reference") fresh.set(r.key, r);
  const built = [...fresh.values()].filter((r) => !r.hit);
  section("compile", "Compile and cache",
    el("div", { class: "stack" }, ...[["build", c.build], ["tune", c.tune], ["other", Math.max(0, c.wall - c.build - c.tune)]].flatMap(([name, s]) =>
      [el("span", {}, name), el("div", {}, el("i", { style: `--k:var(--accent);width:${c.wall > 0 ? 100 * s / c.wall : 0}%` })), el("b", {}, s.toFixed(1) + " s")])),
    el("p", {}, `${count(c.compiler_runs, "compiler run")}, ${count(c.hits, "kernel")} from the cache. `,
      built.length ? `Of the kernels in the log, ${built.length} were built and ${fresh.size - built.length} were hits.` : ""),
    misses.length ? el("div", {}, el("h3", {}, "Why kernels were not in the cache"), bulleted(misses.map(([why, n]) => n + " \u00d7 " + why))) : null,
    built.length ? el("details", {}, el("summary", {}, "What took longest to build"), sortableTable([
      { title: "kernel", name: true, value: (r) => r.kernel, show: (r) => el("span", { class: "mono" }, r.kernel) },
      { title: "built in", num: true, value: (r) => r.build, show: (r) => r.build.toFixed(2) + " s" }], built, { sort: 1, most: 10 })) : null,
    program.notes.length ? el("div", {}, el("h3", {}, "Notes"), bulleted(program.notes)) : null,
    program.verified.unchecked.length ? el("details", {}, el("summary", {}, "Not verified: " + count(program.verified.unchecked.length, "output")), bulleted(program.verified.unchecked)) : null);
}

function passSection() {
  if (!program.passes.length) return;
  const did = (p) => Object.entries(p.counters).map(([what, n]) => n + " " + what).join(", ");
  section("passes", "Passes", sortableTable([
    { title: "#", num: true, value: (p) => p.index }, { title: "pass", value: (p) => p.name, show: (p) => el("span", { "data-tip": p.summary }, p.name) },
    { title: "fired", num: true, value: (p) => p.fired }, { title: "ms", num: true, value: (p) => p.ms, show: (p) => p.ms.toFixed(1) },
    { title: "what it did, and what it left", name: true, value: (p) => p.fired, show: (p) => el("div", {}, did(p), p.notes.length ? el("div", { class: "dim" }, p.notes.join("; ")) : null,
      p.groups.length ? el("details", {}, el("summary", {}, count(p.groups.length, "group")), bulleted(p.groups.map((g) => g.join(" + ")))) : null,
      p.skipped.length ? el("details", {}, el("summary", {}, count(p.skipped.length, "node") + " left alone"), bulleted(p.skipped.map(([n, why]) => n + ": " + why))) : null) },
  ], program.passes, { most: 40 }));
}

function compareSection() {
  if (!other) return;
  const verdict = (ratio) => (ratio > 1.03 ? "bad" : ratio < 0.97 ? "good" : "");
  const sum = (key) => report.pairs.reduce((total, p) => total + p[key], 0);
  section("compare", "Compared with " + other.name,
    el("p", { class: "dim" }, `${program.name}: ${program.machine || "not tuned"}. ${other.name}: ${other.machine || "not tuned"}.`,
      program.machine !== other.machine ? el("span", { class: "warn" }, " These are different machines.") : ""),
    el("div", { class: "cards" }, card("Size", bytesText(program.bytes.total), other.name + ": " + bytesText(other.bytes.total)),
      card("Steps", String(method.steps.length), other.name + ": " + other.methods[0].steps.length),
      report.pairs.length ? card("Common kernels", timeText(sum("a")), other.name + ": " + timeText(sum("b"))) : null),
    sortableTable([
      { title: "kernel", name: true, value: (p) => p.step }, { title: "kind", value: (p) => p.kinds },
      { title: "m", num: true, value: (p) => p.m },
      { title: program.name, num: true, value: (p) => p.a, show: (p) => timeText(p.a) }, { title: other.name, num: true, value: (p) => p.b, show: (p) => timeText(p.b) },
      { title: "ratio", num: true, help: "time in " + other.name + " divided by time in " + program.name, value: (p) => p.b / p.a, show: (p) => el("span", { class: verdict(p.b / p.a) }, (p.noisy ? "~" : "") + (p.b / p.a).toFixed(2) + "\u00d7") },
    ], report.pairs, { sort: 5, most: 25, empty: "no kernel of both was timed at the same m" }),
    report.only[0] + report.only[1] > 0 ? el("p", { class: "dim" }, `Only in ${program.name}: ${report.only[0]}. Only in ${other.name}: ${report.only[1]}.`) : null);
}

header();
overview();
compareSection();
timeSection();
sizedSection("graph", "Graph", () => graphSection(program, method));
kernelSection();
rooflineSection();
tuningSection();
memorySection();
passSection();
compileSection();
section("signature", "Inputs and outputs", signatureTable(program.signature));
