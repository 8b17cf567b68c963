// The life of a page: copy buttons, times in the viewer's zone, and rows that are
// as new as what the server knows. Without it every page works by links and forms.
"use strict";
(() => {
  // The one place where text becomes markup: pages of this server, which escape
  // what others wrote, and only as a tree that is compared with the one shown.
  const own = window.trustedTypes
    ? window.trustedTypes.createPolicy("remit", { createHTML: (text) => text })
    : { createHTML: (text) => text };

  const clock = { hour: "2-digit", minute: "2-digit", hourCycle: "h23" };
  const today = new Intl.DateTimeFormat(undefined, clock);
  const other = new Intl.DateTimeFormat(undefined, { day: "2-digit", month: "short", ...clock });

  // dress does to a page what only a script can do.
  function dress(root) {
    for (const time of root.querySelectorAll("time[datetime]")) {
      const at = new Date(time.dateTime);
      const isToday = at.toDateString() === new Date().toDateString();
      time.textContent = isToday ? `${today.format(at)} today` : other.format(at);
    }
    if (navigator.clipboard) {
      for (const button of root.querySelectorAll("[data-copy]")) button.hidden = false;
    }
  }

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      say("copied");
    } catch {
      say("the browser did not let the page copy");
    }
  });

  // A second click on a form sends nothing; its key makes it one request anyway.
  document.addEventListener("submit", (event) => {
    if (event.target.method !== "post") return;
    if (event.target.dataset.sent) event.preventDefault();
    event.target.dataset.sent = "yes";
  });

  function say(text) {
    const place = document.getElementById("live");
    if (place) place.textContent = text;
  }

  // read fetches a page of this server, as who looks.
  async function read(address) {
    const response = await fetch(address, { headers: { Accept: "text/html" }, redirect: "error" });
    if (!response.ok) throw new Error(response.statusText);
    return new DOMParser().parseFromString(own.createHTML(await response.text()), "text/html");
  }

  // Lines that are a link away come to where the link stands.
  document.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-more]");
    if (!link || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    if (link.ariaBusy) return;
    link.ariaBusy = "true";
    try {
      const lines = [...(await read(link.href)).querySelector("[data-part]").children];
      lines[0].tabIndex = -1;
      link.parentElement.replaceWith(...lines);
      lines[0].focus({ preventScroll: true });
    } catch {
      location.assign(link.href);
    }
  });

  // So do those of a file that is folded, once it is opened.
  document.addEventListener("toggle", (event) => {
    if (event.target.open && !event.target.querySelector(".diff")) event.target.querySelector("a[data-more]")?.click();
  }, true);

  let fetching = false;
  let again = false;

  // refresh fetches the page anew and changes what differs: what is open, focused
  // or scrolled stays.
  async function refresh() {
    if (fetching) {
      again = true;
      return;
    }
    fetching = true;
    const begun = performance.now();
    try {
      const fresh = await read(location.href);
      const main = fresh.getElementById("main");
      if (!main) return;
      dress(main);
      document.title = fresh.title;
      Idiomorph.morph(document.getElementById("main"), main, {
        ignoreActiveValue: true,
        callbacks: {
          beforeAttributeUpdated: (name, node) => !(name === "open" && node.tagName === "DETAILS"),
          beforeNodeMorphed: (node) => !(node.tagName === "FORM" && node.contains(document.activeElement)),
        },
      });
      document.dispatchEvent(new Event("remit:refreshed"));
      const live = fresh.body.dataset.live;
      if (!live && document.body.dataset.live) {
        delete document.body.dataset.live;
        say("");
      }
    } catch {
      say("the page could not be read again");
    } finally {
      fetching = false;
      if (again) {
        again = false;
        setTimeout(refresh, Math.max(150, performance.now() - begun)); // no more than half of the time
      }
    }
  }

  // follow opens the socket of a page. The server numbers what it sends; the number
  // is of the state, so a gap needs nothing but one more look.
  function follow(topic, pause) {
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const socket = new WebSocket(`${scheme}//${location.host}/live?topic=${encodeURIComponent(topic)}`);
    let seen = null;
    socket.addEventListener("open", () => say("live"));
    socket.addEventListener("message", (event) => {
      const { seq } = JSON.parse(event.data);
      if (seen !== seq) refresh();
      seen = seq;
    });
    socket.addEventListener("close", (event) => {
      if (!document.body.dataset.live) return;
      if (event.code === 1008) return say("not live any more: load the page again");
      say("the connection ended; trying again");
      setTimeout(() => follow(topic, Math.min(pause * 2, 10000)), pause);
    });
  }

  // ticket asks for the word that opens a lane once.
  async function ticket(topic) {
    const key = Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16)).join("");
    const headers = { "Content-Type": "application/json", "Idempotency-Key": key, "X-CSRF-Token": document.body.dataset.csrf };
    const response = await fetch("/v1/lanes/tickets", { method: "POST", headers, body: JSON.stringify({ topic }) });
    if (!response.ok) throw new Error(response.statusText);
    return (await response.json()).ticket;
  }

  // ride follows the log of a run of the nexus over its lane, behind what the page
  // shows. What comes is numbered: after a gap it goes on where it stopped.
  async function ride(topic, seen, pause) {
    const again = () => {
      if (!document.body.dataset.live) return;
      say("the connection ended; trying again");
      setTimeout(() => ride(topic, seen, Math.min(pause * 2, 10000)), pause);
    };
    let word;
    try {
      word = await ticket(topic);
    } catch {
      return again();
    }
    const scheme = location.protocol === "https:" ? "wss:" : "ws:";
    const address = `${scheme}//${location.host}/v1/lanes/${encodeURIComponent(topic)}?after_seq=${seen}`;
    const socket = new WebSocket(address, ["remit.lane.v1", `remit.ticket.${word}`]);
    socket.addEventListener("open", () => {
      pause = 500;
      say("live");
    });
    socket.addEventListener("message", (event) => {
      const { seq } = JSON.parse(event.data);
      if (!(seq > seen)) return;
      seen = seq;
      refresh();
    });
    socket.addEventListener("close", again);
  }

  dress(document);
  const { live, seq } = document.body.dataset;
  if (live?.startsWith("lane:")) ride(live.slice("lane:".length), Number(seq), 500);
  else if (live) follow(live, 500);
})();
