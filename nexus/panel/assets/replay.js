// The replay of a run that has ended: the timeline as it was at a moment, moved by
// hand or played. Where the viewer wants no motion it goes from event to event.
"use strict";
(() => {
  let shown = null; // the controls that are wired

  // wire makes the controls of a page work. A run that is watched gets them when it ends.
  function wire() {
    const controls = document.querySelector(".replay");
    if (controls && controls !== shown) replay(controls);
    if (controls) controls.hidden = false;
    shown = controls;
  }

  function replay(controls) {
    const button = controls.querySelector("button");
    const range = controls.querySelector("input");
    const speed = controls.querySelector("select");
    const said = controls.querySelector("output");
    const total = Number(range.max);
    const calm = matchMedia("(prefers-reduced-motion: reduce)");
    const pause = 1000; // between two events, in milliseconds

    const rows = [...document.querySelectorAll(".tl .row[data-begin]")].map((row) => {
      const bar = row.querySelector("rect");
      const name = row.querySelector("b")?.textContent ?? "";
      return { row, bar, name, begin: Number(row.dataset.begin), end: Number(row.dataset.end), width: bar.getAttribute("width") };
    });
    const events = [...new Set(rows.flatMap((one) => [one.begin, one.end]).concat(total))].sort((a, b) => a - b);

    let at = total;
    let playing = false;

    // show draws the timeline as it was at a moment.
    function show(moment) {
      at = Math.min(Math.max(moment, 0), total);
      let now = "";
      for (const { row, bar, name, begin, end, width } of rows) {
        const under = begin <= at && at < end;
        row.classList.toggle("later", at < begin);
        row.classList.toggle("now", under);
        bar.setAttribute("width", at >= end ? width : `${Math.max(0, (100 * (at - begin)) / total)}%`);
        if (under) now = name;
      }
      const text = `${(at / 1000).toFixed(1)} s${now && `, ${now}`}`;
      range.value = at;
      range.setAttribute("aria-valuetext", text);
      said.value = text;
    }

    // keep writes the moment into the address, so that it can be handed on.
    function keep() {
      const address = new URL(location.href);
      if (at < total) address.searchParams.set("at", Math.round(at));
      else address.searchParams.delete("at");
      history.replaceState(null, "", address);
    }

    function stop() {
      playing = false;
      button.textContent = "Play";
      keep();
    }

    function play() {
      if (at >= total) show(0);
      playing = true;
      button.textContent = "Pause";
      let last = performance.now();
      const move = (now) => {
        if (!playing) return;
        show(calm.matches ? (events.find((event) => event > at) ?? total) : at + (now - last) * Number(speed.value));
        last = now;
        if (at >= total) stop();
        else next();
      };
      const next = () => (calm.matches ? setTimeout(() => move(performance.now()), pause) : requestAnimationFrame(move));
      next();
    }

    button.addEventListener("click", () => (playing ? stop() : play()));
    range.addEventListener("input", () => {
      if (playing) stop();
      show(Number(range.value));
    });
    range.addEventListener("change", keep);

    const asked = Number(new URL(location.href).searchParams.get("at") ?? total);
    show(Number.isFinite(asked) ? asked : total);
  }

  document.addEventListener("remit:refreshed", wire);
  wire();
})();
