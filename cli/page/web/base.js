"use strict";
// What all sections use: elements, units, sortable tables, tips and the dialog. Text from files only ever becomes text
// nodes.
const report = JSON.parse(document.getElementById("data").textContent);
const $ = (id) => document.getElementById(id);

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value);
  }
  for (const child of children.flat(Infinity)) if (child !== null && child !== undefined) node.append(child);
  return node;
}
const el = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// Units.
const digits = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2));
const timeText = (us) =>
  us === null || us === undefined || us <= 0 ? "-" :
  us < 1e3 ? digits(us) + " \u00b5s" : us < 1e6 ? digits(us / 1e3) + " ms" : digits(us / 1e6) + " s";
const bytesText = (b) =>
  b < 1e3 ? b + " B" : b < 1e6 ? digits(b / 1e3) + " kB" : b < 1e9 ? digits(b / 1e6) + " MB" : digits(b / 1e9) + " GB";
const rateText = (gbps) => (gbps > 0 ? gbps.toFixed(1) : "-");
const flopsText = (gflops) => (gflops <= 0 ? "-" : gflops < 1e3 ? digits(gflops) + " GF/s" : digits(gflops / 1e3) + " TF/s");
const shareText = (share) => (share <= 0 ? "-" : share > 1.1 ? ">110 %" : (share * 100).toFixed(0) + " %");
const count = (n, noun) => n.toLocaleString("en") + " " + noun + (n === 1 ? "" : "s");

// Kinds of kernels and their colours.
const kKinds = ["gemm", "attention", "matmul", "rows", "loop", "reduce", "quantize_rows", "gather"];
const colourOf = (family) =>
  "var(--k-" + (family === "quantize_rows" ? "quantize" : kKinds.includes(family) ? family : "other") + ")";
const chip = (family, text) => el("span", { class: "chip", style: "--k:" + colourOf(family) }, text || family);
function legend(families) {
  const order = (f) => (kKinds.includes(f) ? kKinds.indexOf(f) : kKinds.length);
  return el("div", { class: "legend" }, [...new Set(families)].sort((a, b) => order(a) - order(b)).map((f) => chip(f)));
}

const meter = (share) =>
  el("span", { class: "meter", "aria-hidden": "true" }, el("i", { style: "width:" + Math.min(100, share * 100) + "%" }));

// A table that sorts by any column. Columns: {title, value(row) to sort by, show(row) to print, num, help, narrow}.
// Only the first rows are drawn until somebody asks for the others.
function sortableTable(columns, rows, options) {
  const { sort = -1, descending = true, most = 40, empty = "nothing to show" } = options || {};
  let by = sort, down = descending, all = false, list = rows;
  const head = el("tr"), body = el("tbody"), foot = el("div", { class: "bar" });
  const show = (column, row) => (column.show ? column.show(row) : String(column.value(row)));
  function draw() {
    const sorted = by < 0 ? list : [...list].sort((a, b) => {
      const x = columns[by].value(a), y = columns[by].value(b);
      const order = typeof x === "string" ? x.localeCompare(y, "en", { numeric: true }) : (x ?? -1) - (y ?? -1);
      return down ? -order : order;
    });
    body.replaceChildren(...sorted.slice(0, all ? sorted.length : most).map((row) =>
      el("tr", {}, columns.map((c) => el("td", { class: [c.num ? "num" : "", c.name ? "name" : "", c.narrow ? "hide-narrow" : ""].join(" ").trim() || null }, show(c, row))))));
    if (list.length === 0) body.append(el("tr", {}, el("td", { colspan: columns.length, class: "dim" }, empty)));
    foot.replaceChildren();
    if (list.length > most)
      foot.append(el("button", { type: "button", onclick: () => { all = !all; draw(); } },
        all ? "Show fewer" : "Show all " + list.length + " rows"));
    [...head.children].forEach((th, i) =>
      i === by ? th.setAttribute("aria-sort", down ? "descending" : "ascending") : th.removeAttribute("aria-sort"));
  }
  columns.forEach((column, i) => {
    const click = () => { down = by === i ? !down : !!column.num; by = i; draw(); };
    head.append(el("th", { scope: "col", class: [column.num ? "num" : "", column.narrow ? "hide-narrow" : ""].join(" ").trim() || null },
      el("button", { type: "button", "data-tip": column.help, onclick: click }, column.title)));
  });
  draw();
  const node = el("div", {}, el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), body)), foot);
  node.setRows = (next) => { list = next; draw(); };
  return node;
}

// A section of the page, with its link in the navigation, which is the first word or two of the title.
function section(id, title, ...children) {
  $("nav").append(el("a", { href: "#" + id }, title.split(" with ")[0].replace("Where the time goes", "Time")));
  const node = el("section", { id }, el("h2", {}, title), ...children);
  $("main").append(node);
  return node;
}

function select(label, choices, chosen, onchange) {
  const node = el("select", { onchange: () => onchange(node.value) },
    choices.map(([value, text]) => el("option", { value, selected: value === chosen ? "" : null }, text)));
  return el("label", {}, label + " ", node);
}

// Tips: what an element says in data-tip is shown beside the pointer, and on touch.
function showTip(event) {
  const target = event.target.closest && event.target.closest("[data-tip]");
  const tip = $("tip");
  tip.hidden = !target;
  if (!target) return;
  tip.textContent = target.dataset.tip;
  const x = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8);
  const y = event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 10 : event.clientY + 18;
  tip.style.left = Math.max(8, x) + "px";
  tip.style.top = Math.max(8, y) + "px";
}
document.addEventListener("pointermove", showTip);
document.addEventListener("pointerdown", showTip);
document.addEventListener("scroll", () => { $("tip").hidden = true; }, true);

function openDialog(title, ...children) {
  $("dialog-title").textContent = title;
  $("dialog-body").replaceChildren(...children.flat());
  if (!$("dialog").open) $("dialog").showModal();
}
$("dialog-close").addEventListener("click", () => $("dialog").close());
$("dialog").addEventListener("click", (event) => { if (event.target === $("dialog")) $("dialog").close(); });

// C++ with comments, directives, strings and keywords set off.
function highlighted(text) {
  const pre = el("pre", { tabindex: "0" });
  const words = /(\/\/[^\n]*)|(^[ \t]*#[^\n]*)|("(?:[^"\\\n]|\\.)*")|\b(auto|bool|break|case|char|const|constexpr|continue|double|else|extern|false|float|for|if|inline|int|int8_t|int16_t|int32_t|int64_t|namespace|nullptr|return|sizeof|static|static_cast|struct|switch|template|true|typename|uint8_t|uint16_t|uint32_t|uint64_t|using|void|while)\b/gm;
  let at = 0;
  for (const match of text.matchAll(words)) {
    pre.append(text.slice(at, match.index));
    pre.append(el("span", { class: match[1] ? "c" : match[2] ? "p" : match[3] ? "s" : "k" }, match[0]));
    at = match.index + match[0].length;
  }
  pre.append(text.slice(at));
  return pre;
}
