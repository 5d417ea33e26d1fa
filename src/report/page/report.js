// Draws the charts of the report from the JSON block of the page.
"use strict";

(function () {
  const note = document.getElementById("chart-note");
  if (typeof Chart === "undefined") {
    note.textContent = "Charts are not shown: this slift was built without Chart.js.";
    return;
  }
  note.hidden = true;

  const data = JSON.parse(document.getElementById("report-data").textContent);
  const style = getComputedStyle(document.documentElement);
  const colour = (name) => style.getPropertyValue("--" + name).trim();
  const runColours = 6;
  const dashes = [[], [7, 3], [2, 3], [9, 3, 2, 3]];
  const maxCharts = 8;  // of one section
  const timeTitle = "time t / T" +
      (data.end_time > 0 ? "  (T = " + Number(data.end_time.toPrecision(4)) + ")" : "");

  Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
  Chart.defaults.font.size = 13;
  Chart.defaults.color = colour("ink");
  Chart.defaults.animation = false;
  Chart.defaults.maintainAspectRatio = false;

  // A line; points that cannot be drawn (null, or not positive on a log axis) leave gaps.
  function line(label, x, y, options) {
    const points = x.map((v, i) => ({ x: v, y: options.log && !(y[i] > 0) ? null : y[i] }));
    return {
      label: label,
      data: points,
      borderColor: options.colour,
      backgroundColor: options.colour,
      borderWidth: "width" in options ? options.width : 2,
      borderDash: options.dash || [],
      pointRadius: points.length < 3 && !options.bare ? 3 : 0,
      pointHitRadius: 6,
      order: options.order || 0,
      unlisted: options.unlisted || false,  // not in the legend
      fill: options.fill || false,
      tip: options.tip,  // the label in tooltips, if another
    };
  }

  function runLine(index, x, y, options) {
    return line(data.runs[index].label, x, y, Object.assign({
      colour: colour("run-" + (index % runColours)),
      dash: dashes[index % dashes.length],
    }, options));
  }

  // Ticks of a log axis: decades, with steps between them where there are few.
  function setLogTicks(scale) {
    const decades = Math.log10(scale.max / scale.min);
    const steps = decades > 3 ? [1] : decades > 1.5 ? [1, 3] : decades > 0.8 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 6, 8];
    const ticks = [];
    for (let power = Math.floor(Math.log10(scale.min)); power <= Math.log10(scale.max); ++power) {
      for (const step of steps) {
        const value = Number((step * Math.pow(10, power)).toPrecision(2));
        if (value >= scale.min && value <= scale.max) ticks.push({ value: value });
      }
    }
    scale.ticks = ticks;
  }

  function logLabel(value) {
    return value >= 1e5 || value < 1e-3 ? value.toExponential() : String(value);
  }

  // Limits of a log axis around all lines, so that it does not end at far-off decades.
  function logLimits(lines) {
    const values = lines.flatMap((l) => l.data.map((p) => p.y)).filter((y) => y > 0);
    if (values.length === 0) return {};
    const low = values.reduce((a, b) => Math.min(a, b)), high = values.reduce((a, b) => Math.max(a, b));
    return { min: low / 1.25, max: high * 1.25 };
  }

  function axis(title, options) {
    const result = {
      type: options.log ? "logarithmic" : "linear",
      title: { display: true, text: title },
      offset: false,  // bars would move the ends of their axis
      grid: { color: colour("grid"), borderColor: colour("floor"), offset: false },
      ticks: { maxRotation: 0 },
    };
    if (options.log) {
      Object.assign(result.ticks, { autoSkip: false, callback: logLabel });
      result.afterBuildTicks = setLogTicks;
    }
    if ("min" in options) result.min = options.min;
    if ("max" in options) result.max = options.max;
    if (options.fromZero) result.beginAtZero = true;
    if (options.around) [result.suggestedMin, result.suggestedMax] = options.around;
    return result;
  }

  function show(section) {
    document.getElementById(section).hidden = false;
    document.querySelector('[data-chart-link="' + section + '"]').hidden = false;
    return document.querySelector('[data-charts="' + section + '"]');
  }

  // Short pieces of the lines themselves, dashes included, in the order of the datasets; bars and
  // bands as patches.
  const legendLabels = {
    usePointStyle: true,
    pointStyleWidth: 34,
    sort: (a, b) => a.datasetIndex - b.datasetIndex,
    filter: (item, chart) => !chart.datasets[item.datasetIndex].unlisted,
    generateLabels: (chart) => Chart.defaults.plugins.legend.labels.generateLabels(chart).map((item) => {
      const set = chart.data.datasets[item.datasetIndex];
      const patch = set.type === "bar" || set.fill;
      return Object.assign(item, { pointStyle: patch ? "rect" : "line", lineDash: set.borderDash });
    }),
  };

  function draw(parent, description, datasets, x, y) {
    const box = document.createElement("div");
    box.className = "chart";
    const canvas = document.createElement("canvas");
    canvas.setAttribute("role", "img");
    canvas.setAttribute("aria-label", description);
    box.appendChild(canvas);
    parent.appendChild(box);
    new Chart(canvas, {
      type: "line",
      data: { datasets: datasets },
      options: {
        parsing: false,
        interaction: { mode: "nearest", axis: "x", intersect: false },
        scales: { x: x, y: y },
        plugins: {
          legend: { position: "top", align: "start", labels: legendLabels },
          tooltip: { callbacks: { label: (item) => (item.dataset.tip || item.dataset.label) + ": " + Number(item.parsed.y.toPrecision(4)) } },
        },
      },
    });
  }

  function remark(parent, text) {
    const p = document.createElement("p");
    p.className = "remark";
    p.textContent = text;
    parent.after(p);
  }

  function drawDistance() {
    const lines = [];
    const floors = new Map();
    data.runs.forEach((run, i) => {
      const d = run.evaluation.scores[0].over_time;
      if (!d) return;
      lines.push(runLine(i, d.time, d.value, { log: true }));
      const kind = run.evaluation.truth + " " + run.evaluation.members;
      if (!floors.has(kind)) floors.set(kind, { run: run, index: i, over: d });
    });
    floors.forEach((f) => {
      const name = floors.size > 1 ? "floor of " + f.run.label : "floor: truth against truth";
      lines.push(line(name, f.over.time, f.over.floor,
                      { log: true, colour: colour("floor"), width: 1.5, dash: [4, 3], order: 1 }));
    });
    if (lines.length === 0) return;
    draw(show("distance"), "Distance to the truth over time", lines,
         axis(timeTitle, { min: 0, max: 1 }),
         axis(data.distance_name + ", units of x", { log: true, ...logLimits(lines) }));
  }

  // At least a quarter of the spread around the true mean: noise should not look like an error.
  function meanLimits(truth, column) {
    const reach = Math.max(...column(truth.std)) / 4;
    return [Math.min(...column(truth.mean)) - reach, Math.max(...column(truth.mean)) + reach];
  }

  function drawMoments(section, moment, word) {
    const parent = show(section);
    const subject = data.runs[0].evaluation.moments;
    const fields = subject.fields.slice(0, maxCharts);
    fields.forEach((field, c) => {
      const column = (table) => table.map((row) => row[c]);
      const lines = [line("truth", subject.time, column(subject.truth[moment]),
                          { colour: colour("truth"), width: 4, order: 1 })];
      data.runs.forEach((run, i) => {
        const m = run.evaluation.moments;
        lines.push(runLine(i, m.time, column(m.generated[moment]), {}));
      });
      draw(parent, word + " of " + field + " over time", lines, axis(timeTitle, { min: 0, max: 1 }),
           axis(word + " of " + field,
                moment === "std" ? { fromZero: true } : { around: meanLimits(subject.truth, column) }));
    });
    if (subject.fields.length > fields.length) {
      remark(parent, "The first " + fields.length + " of " + subject.fields.length + " fields are shown.");
    }
  }

  // What runs have of one kind, gathered by name: [{ name, parts: [{ index, part }] }], at most as
  // many as are shown. `partsOf` gives the named parts of an evaluation.
  function gather(partsOf) {
    const byName = new Map();
    data.runs.forEach((run, i) => {
      for (const part of partsOf(run.evaluation)) {
        if (!byName.has(part.name)) byName.set(part.name, []);
        byName.get(part.name).push({ index: i, part: part });
      }
    });
    return Array.from(byName, ([name, parts]) => ({ name: name, parts: parts })).slice(0, maxCharts);
  }

  function drawQuantiles() {
    const charts = gather((evaluation) => {
      const q = evaluation.quantiles || { tables: [] };
      const level = (p) => q.levels.indexOf(p);
      const curves = (rows) => [0.05, 0.5, 0.95].map((p) => rows.map((row) => row[level(p)]));
      return q.tables.map((table) => ({
        name: table.name, time: q.time, truth: curves(table.truth), generated: curves(table.generated),
      }));
    });
    if (charts.length === 0) return;
    const parent = show("quantiles");
    for (const { name, parts } of charts) {
      const { time, truth } = parts[0].part;
      const band = { colour: colour("band"), width: 0, order: 2 };
      const lines = [
        line("truth 5 %", time, truth[0], { ...band, unlisted: true }),
        line("truth 5 to 95 %", time, truth[2], { ...band, fill: "-1", tip: "truth 95 %" }),
        line("truth median", time, truth[1], { colour: colour("truth"), width: 4, order: 1 }),
      ];
      for (const { index, part } of parts) {
        const label = data.runs[index].label;
        lines.push(runLine(index, part.time, part.generated[1], { tip: label + " median" }));
        lines.push(runLine(index, part.time, part.generated[0], { width: 1, unlisted: true, tip: label + " 5 %" }));
        lines.push(runLine(index, part.time, part.generated[2], { width: 1, unlisted: true, tip: label + " 95 %" }));
      }
      draw(parent, "Quantiles of " + name + " over time", lines, axis(timeTitle, { min: 0, max: 1 }),
           axis(name, {}));
    }
  }

  function drawRanks() {
    const histograms = (scores, suffix) => scores
        .filter((score) => score.counts && score.counts.some((count) => count > 0))
        .map((score) => ({ name: score.name + suffix, counts: score.counts }));
    const charts = gather((evaluation) => histograms(evaluation.scores, "").concat(
        histograms((evaluation.conditional || { scores: [] }).scores, ", from a common start")));
    if (charts.length === 0) return;
    const parent = show("ranks");
    for (const { name, parts } of charts) {
      const sets = parts.map(({ index, part }) => {
        const bins = part.counts.length;
        const total = part.counts.reduce((a, b) => a + b);
        return {
          type: "bar",
          label: data.runs[index].label,
          data: part.counts.map((count, b) => ({ x: (b + 0.5) / bins, y: count * bins / total })),
          backgroundColor: colour("run-" + (index % runColours)),
          barPercentage: 0.9,
          categoryPercentage: 0.9,
        };
      });
      sets.push(line("flat", [0, 1], [1, 1], { colour: colour("truth"), width: 1.5, dash: [4, 3], order: -1, bare: true }));
      draw(parent, "Rank histogram of " + name, sets,
           axis("rank of the truth, " + name, { min: 0, max: 1 }), axis("bar / flat bar", { fromZero: true }));
    }
  }

  // One chart for each field and time. Wave number 0, the mean, has no place on a log axis.
  function drawSpectra() {
    const charts = gather((evaluation) => (evaluation.spectra || []).flatMap((table) =>
        table.time.map((time, t) => ({
          name: table.field + " at t / T = " + Number(time.toPrecision(2)),
          truth: table.truth[t].slice(1), generated: table.generated[t].slice(1),
        }))));
    if (charts.length === 0) return;
    const parent = show("spectra");
    for (const { name, parts } of charts) {
      const { truth } = parts[0].part;
      const waves = truth.map((_, k) => k + 1);
      const lines = [line("truth", waves, truth, { log: true, colour: colour("truth"), width: 4, order: 1 })];
      for (const { index, part } of parts) lines.push(runLine(index, waves, part.generated, { log: true }));
      draw(parent, "Spectrum of " + name, lines,
           axis("wave number k (waves across the field)", { log: true, min: 1, max: waves.length }),
           axis("energy of " + name, { log: true, ...logLimits(lines) }));
    }
  }

  function drawLoss() {
    const lines = [];
    data.runs.forEach((run, i) => {
      if (run.loss.step.length > 0) lines.push(runLine(i, run.loss.step, run.loss.value, { log: true, width: 1.5 }));
    });
    if (lines.length === 0) return;
    const parent = show("loss");
    draw(parent, "Training loss", lines, axis("training step", {}), axis("loss", { log: true, ...logLimits(lines) }));
    const missing = data.runs.filter((run) => run.trained && run.loss.step.length === 0).map((run) => run.label);
    if (missing.length > 0) remark(parent, "No log of: " + missing.join(", ") + ".");
  }

  function drawGauge() {
    const lines = [];
    data.runs.forEach((run, i) => {
      const { t, training, held_out } = run.gauge;
      const heldOut = held_out.length > 0;
      if (heldOut) lines.push(runLine(i, t, held_out, { log: true }));
      if (t.length > 0) {
        const label = run.label + ", training windows";
        lines.push(Object.assign(runLine(i, t, training, { log: true, width: heldOut ? 1 : 2, dash: [2, 3] }), { label: label }));
      }
    });
    if (lines.length === 0) return;
    const steps = lines[0].data.map((p) => p.x);
    lines.push(line("right", [steps[0], steps[steps.length - 1]], [1, 1],
                    { log: true, colour: colour("floor"), width: 1.5, dash: [4, 3], order: 1, bare: true }));
    draw(show("gauge"), "Spread of one step over its error", lines, axis("step t of the trajectory", {}),
         axis("spread / error, as variances", { log: true, ...logLimits(lines) }));
  }

  drawDistance();
  drawMoments("spread", "std", "std");
  drawMoments("mean", "mean", "mean");
  drawQuantiles();
  drawRanks();
  drawSpectra();
  drawGauge();
  drawLoss();
})();
