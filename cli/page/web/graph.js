// The graph before and after the passes, drawn from top to bottom. Nodes: {label, tip, inputs: [index], k: colour or
// null, io, taken, group: any value that nodes which belong together share}.

// Places for boxes of these widths side by side, in this order, as near to where they wish to be as there is room.
// Neighbours that would overlap share the mean of their wishes, by weight.
function placeInRow(items) {
  let offset = 0, last = null;
  const blocks = [];
  for (const item of items) {
    if (last) offset += (last.width + item.width) / 2 + 14;
    item.offset = offset, last = item;
    blocks.push({ items: [item], weight: item.weight, sum: item.weight * (item.wish - offset) });
    while (blocks.length > 1) {
      const b = blocks[blocks.length - 1], a = blocks[blocks.length - 2];
      if (a.sum / a.weight <= b.sum / b.weight) break;
      blocks.pop();
      a.items.push(...b.items), a.weight += b.weight, a.sum += b.sum;
    }
  }
  for (const block of blocks) for (const item of block.items) item.x = block.sum / block.weight + item.offset;
}

// Where each node goes: just above its first reader, and the last ones as high as their inputs allow. A longest path is
// the spine, at x = 0; the others wish to be near what they read and what reads them.
function layOut(nodes) {
  const kRow = 40, kSpine = 200, width = nodes.map((n) => Math.max(44, Math.min(26, n.label.length) * 6.8 + 16));
  const rank = nodes.map(() => 0), readers = nodes.map(() => []);
  nodes.forEach((n, i) => n.inputs.forEach((j) => { rank[i] = Math.max(rank[i], rank[j] + 1); readers[j].push(i); }));
  const spine = new Set();
  for (let i = rank.indexOf(Math.max(...rank)); i >= 0; i = nodes[i].inputs.find((j) => rank[j] === rank[i] - 1) ?? -1) spine.add(i);
  for (let i = nodes.length - 1; i >= 0; --i) if (readers[i].length) rank[i] = Math.min(...readers[i].map((r) => rank[r])) - 1;
  const rows = [];
  nodes.forEach((n, i) => (rows[rank[i]] ||= []).push(i));
  const x = nodes.map(() => 0);
  const mean = (list, none) => (list.length ? list.reduce((sum, j) => sum + x[j], 0) / list.length : none);
  const sweep = (order, wishOf) => order.forEach((row) => {
    const items = row.map((i, at) => ({ i, at, width: width[i], weight: spine.has(i) ? kSpine : 1, wish: spine.has(i) ? 0 : wishOf(i) }));
    items.sort((a, b) => a.wish - b.wish || a.at - b.at);
    placeInRow(items);
    for (const item of items) x[item.i] = item.x;
  });
  const down = rows.filter(Boolean), up = [...down].reverse();
  sweep(down, (i) => mean(nodes[i].inputs, 0));
  sweep(up, (i) => mean(readers[i], mean(nodes[i].inputs, 0)));
  sweep(down, (i) => mean(nodes[i].inputs.length ? nodes[i].inputs : readers[i], 0));
  // As wide to both sides that the spine can be scrolled to the middle.
  const kSide = 380, left = Math.min(...nodes.map((n, i) => x[i] - width[i] / 2), 20 - kSide) - 20;
  return {
    x: x.map((v) => v - left), y: rank.map((r) => 24 + r * kRow), width, rank, spine: -left,
    w: Math.max(...nodes.map((n, i) => x[i] + width[i] / 2), kSide) - left + 20, h: 48 + rows.length * kRow,
  };
}

// A scrolling picture with zoom. onpick(index) is called for a node that is clicked.
function graphPane(title, nodes, onpick) {
  const at = layOut(nodes), drawn = [];
  const edges = svg("g"), boxes = svg("g");
  nodes.forEach((n, i) => n.inputs.forEach((j) => {
    const y0 = at.y[j] + 12, y1 = at.y[i] - 12, bend = Math.min(28, (y1 - y0) / 2);
    edges.append(svg("path", {
      d: `M${at.x[j]} ${y0}C${at.x[j]} ${y0 + bend} ${at.x[i]} ${y1 - bend} ${at.x[i]} ${y1}`,
      class: at.rank[i] - at.rank[j] > 8 || Math.abs(at.x[i] - at.x[j]) > 900 ? "long" : null,
    }));
  }));
  nodes.forEach((n, i) => {
    const label = n.label.length > 26 ? n.label.slice(0, 25) + "\u2026" : n.label;
    const box = svg("g", {
      class: "node" + (n.taken ? " taken" : "") + (n.io ? " io" : ""), style: n.k ? "--k:" + n.k : null, "data-tip": n.tip,
      transform: `translate(${at.x[i]} ${at.y[i]})`, onclick: () => onpick(i),
    }, svg("rect", { x: -at.width[i] / 2, y: -12, width: at.width[i], height: 24, rx: n.io ? 12 : 5 }), svg("text", { y: 4 }, label));
    drawn.push(box);
    boxes.append(box);
  });
  const picture = svg("svg", { viewBox: `0 0 ${at.w} ${at.h}`, role: "img", "aria-label": title }, edges, boxes);
  const canvas = el("div", { class: "canvas", tabindex: "0" }, picture);
  let zoom = 1;
  const setZoom = (z) => {
    const middle = (canvas.scrollTop + canvas.clientHeight / 2) / zoom;
    zoom = Math.max(0.05, Math.min(2.5, z));
    picture.setAttribute("width", at.w * zoom);
    picture.setAttribute("height", at.h * zoom);
    canvas.scrollTop = middle * zoom - canvas.clientHeight / 2;
  };
  const fit = () => { setZoom(Math.min(1, (canvas.clientWidth - 4) / at.w, (canvas.clientHeight - 4) / at.h)); };
  const button = (text, tip, onclick) => el("button", { type: "button", "data-tip": tip, "aria-label": tip, onclick }, text);
  const node = el("div", { class: "pane" },
    el("div", { class: "bar" }, el("h3", { style: "margin:0;flex:1" }, title),
      button("\u2212", "smaller", () => setZoom(zoom / 1.3)), button("+", "larger", () => setZoom(zoom * 1.3)),
      button("Fit", "the whole graph", fit)),
    canvas);
  setZoom(1);
  node.start = () => {
    setZoom(at.w > canvas.clientWidth ? Math.max(0.75, (canvas.clientWidth - 20) / at.w) : 1);
    canvas.scrollLeft = at.spine * zoom - canvas.clientWidth / 2;
    canvas.scrollTop = 0;
  };
  // Marks the nodes for which the test holds, and scrolls to the first of them.
  node.mark = (test, scroll) => {
    let first = -1;
    nodes.forEach((n, i) => {
      const hit = test(n, i);
      drawn[i].classList.toggle("marked", hit);
      if (hit && first < 0) first = i;
    });
    if (first >= 0 && scroll)
      canvas.scrollTo({ left: at.x[first] * zoom - canvas.clientWidth / 2, top: at.y[first] * zoom - canvas.clientHeight / 2 });
    return first;
  };
  node.find = (text) => {
    const found = nodes.map((n) => !!text && (n.label + " " + n.tip).toLowerCase().includes(text));
    nodes.forEach((n, i) => drawn[i].classList.toggle("faded", !!text && !found[i]));
    const first = found.indexOf(true);
    if (first >= 0) canvas.scrollTo({ left: at.x[first] * zoom - canvas.clientWidth / 2, top: at.y[first] * zoom - 60 });
    return found.filter(Boolean).length;
  };
  return node;
}

function beforeNodes(program, method, withWeights) {
  const all = program.graph.nodes, keep = all.map((n) => withWeights || !n.weights), index = new Map();
  all.forEach((n, i) => { if (keep[i]) index.set(i, index.size); });
  return all.filter((n, i) => keep[i]).map((n) => {
    const step = n.step >= 0 ? method.steps[n.step] : null;
    const fate = step ? "computed by " + step.name + " (" + step.kind + ")" : n.input ? "input" :
      n.weights ? "of weights alone: evaluated by the compile" : "no kernel: a view, or it changes nothing";
    return {
      label: n.input ? n.name : n.op.replace(/^.*?\./, "").replace(/\.(default|Tensor|Scalar|int|dtype)$/, ""),
      tip: n.name + "\n" + (n.op || "") + " " + n.shape + "\n" + (n.source ? n.source + "\n" : "") + fate,
      inputs: n.inputs.filter((j) => keep[j]).map((j) => index.get(j)), k: step ? colourOf(step.family) : null,
      taken: !!step, io: !!n.input, group: n.step, source: n, fate,
    };
  });
}

function afterNodes(method) {
  return method.drawing.map((n) => {
    if (n.step < 0) return { label: n.name, tip: n.name + "\n" + n.what, inputs: n.inputs, io: true, group: -2, source: n };
    const step = method.steps[n.step];
    return {
      label: step.name, tip: step.name + "\n" + step.kind + (step.formula ? "\n" + step.formula : ""), inputs: n.inputs,
      k: colourOf(step.family), taken: true, group: n.step, source: step,
    };
  });
}

function list(items, most) {
  const rest = items.length - most;
  return items.slice(0, most).join(", ") + (rest > 0 ? " and " + rest + " more" : "");
}

// Both pictures. A click on a node marks what belongs to it in both, and says what became of it and why.
function graphSection(program, method) {
  const detail = el("div", { class: "detail", "aria-live": "polite" }, el("span", { class: "dim" },
    "Click a node: what one kernel computes is marked in both pictures."));
  const reasons = new Map();
  for (const pass of program.passes)
    for (const [node, why] of pass.skipped) reasons.set(node, [...(reasons.get(node) || []), pass.name + ": " + why]);
  const parts = (pairs) => el("dl", {}, pairs.filter(([, v]) => v && v.length).map(([k, v]) => [el("dt", {}, k), el("dd", {}, v)]));
  const panes = el("div", { class: "panes" });
  let before = null, after = null;
  function showStep(s) {
    const step = method.steps[s];
    const why = step.nodes.flatMap((n) => reasons.get(n) || []);
    detail.replaceChildren(el("b", {}, step.name), " ", chip(step.family, step.kind), parts([
      ["module", step.module], ["formula", step.formula], ["computes", list(step.nodes, 12)],
      ["not fused", [...new Set(why)].slice(0, 6).join("; ")],
      ["kernels", step.kernels.map((k, i) => [i ? " " : "", el("button", { type: "button", class: "link mono", onclick: () => openKernel(program, k.kernel) },
        program.kernels[k.kernel].name)]).flat()],
    ]));
  }
  function pick(pane, nodes, i) {
    const node = nodes[i];
    const same = (n) => node.group >= 0 && n.group === node.group;
    if (before) before.mark(pane === before && node.group < 0 ? (n) => n === node : same, pane !== before);
    after.mark(pane === after && node.group < 0 ? (n) => n === node : same, pane !== after);
    if (node.group >= 0) return showStep(node.group);
    detail.replaceChildren(el("b", {}, node.source.name), parts([
      ["operation", node.source.op], ["shape", node.source.shape], ["from", node.source.source], ["module", node.source.module],
      ["became", node.fate || node.source.what], ["not fused", (reasons.get(node.source.name) || []).join("; ")]]));
  }
  function draw(withWeights) {
    const nodesAfter = afterNodes(method);
    after = graphPane("After: " + count(method.steps.length, "step"), nodesAfter, (i) => pick(after, nodesAfter, i));
    before = null;
    if (program.graph.nodes.length) {
      const nodesBefore = beforeNodes(program, method, withWeights);
      before = graphPane("Before: " + count(program.graph.nodes.filter((n) => !n.input).length, "node"), nodesBefore, (i) => pick(before, nodesBefore, i));
    }
    panes.replaceChildren(...[before, after].filter(Boolean));
    if (!before) panes.style.gridTemplateColumns = "1fr";
    requestAnimationFrame(() => { for (const pane of [before, after]) if (pane) pane.start(); });
  }
  const found = el("span", { class: "dim" });
  const search = el("input", { type: "search", placeholder: "Find a node", "aria-label": "Find a node", oninput: () => {
    const text = search.value.trim().toLowerCase(), hits = [before, after].map((pane) => (pane ? pane.find(text) : 0));
    found.textContent = text ? hits[0] + hits[1] + " found" : "";
  } });
  const weights = el("label", {}, el("input", { type: "checkbox", id: "with-weights", onchange: (e) => draw(e.target.checked) }), " nodes of weights alone");
  draw(false);
  return [
    el("p", { class: "dim" }, "Colours are the kinds of kernels that took the nodes; nodes without a colour became views, or were evaluated."),
    legend(method.steps.map((s) => s.family)),
    el("div", { class: "bar" }, search, program.graph.nodes.some((n) => n.weights) ? weights : null, found),
    program.graph.why ? el("p", { class: "warn" }, "The graph before the passes is not drawn: " + program.graph.why) : null,
    panes, detail,
  ];
}
