// Keys, the next case, answers that wait for the line. No library but htmx, nothing from another host.
(() => {
  "use strict";
  const doc = document;

  // -- keys: an element with data-key is pressed by that key, unless somebody is writing --------------------------
  const writing = (element) => element && (element.matches("input:not([type=radio]):not([type=checkbox]), textarea, select") || element.isContentEditable);
  const shown = (element) => element.offsetParent !== null && !element.disabled;

  doc.addEventListener("keydown", (event) => {
    if (event.isComposing || (event.repeat && !writing(event.target))) return; // a key that is held down is pressed once
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && writing(event.target)) {
      const form = event.target.closest("form");
      const button = form && form.querySelector("[data-main]");
      const value = form && form.querySelector("input[name=value], textarea[name=value]");
      event.preventDefault();
      // Words alone are saved as words: a verdict is chosen by its own button.
      if (button && (form.closest(".done") || !value || value.value.trim())) button.click();
      else if (event.target.matches("#card textarea[name=rationale]")) { event.target.blur(); doc.getElementById("card").focus({ preventScroll: true }); }
      return;
    }
    if (event.key === "Escape" && writing(event.target)) { event.target.blur(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || writing(event.target)) return;
    if (event.key === "Enter" && event.target.matches("a, button, summary, [role=button]")) return;
    const key = event.key === "Enter" ? "enter" : event.key.toLowerCase();
    for (const element of doc.querySelectorAll("[data-key]")) {
      if (element.dataset.key === key && shown(element)) {
        event.preventDefault();
        if (element.matches("textarea, input")) element.focus(); else element.click();
        return;
      }
    }
  });

  // -- focus mode ----------------------------------------------------------------------------------------------
  const setFocus = (on) => {
    doc.documentElement.toggleAttribute("data-focus", on);
    for (const button of doc.querySelectorAll("[data-focus-mode]")) button.setAttribute("aria-pressed", String(on));
    try { localStorage.setItem("memalign-focus", on ? "1" : ""); } catch { /* private windows have no store */ }
  };
  const focused = () => { try { return localStorage.getItem("memalign-focus") === "1"; } catch { return false; } };

  // -- the next case is here already ------------------------------------------------------------------------------
  const goOn = () => {
    const ahead = doc.querySelector("template#ahead");
    const card = doc.getElementById("card");
    if (!ahead || !card || !ahead.content.querySelector("#card")) return false;
    const next = ahead.content.querySelector("#card").cloneNode(true);
    ahead.innerHTML = "";
    card.replaceWith(next);
    htmx.process(next);
    arrive(next);
    window.scrollTo({ top: 0 });
    next.focus({ preventScroll: true });
    announce(next.dataset.announce || "");
    fetchAhead(next);
    return true;
  };
  const fetchAhead = async (card) => {
    const ahead = doc.querySelector("template#ahead");
    if (!ahead || !card.dataset.next) return;
    try {
      const answer = await fetch(card.dataset.next, { headers: { "HX-Request": "true" } });
      if (answer.ok) ahead.innerHTML = await answer.text();
    } catch { /* the link of the button still works */ }
  };

  const announce = (text) => { const live = doc.getElementById("live"); if (live) live.textContent = text; };

  doc.addEventListener("click", (event) => {
    const next = event.ctrlKey || event.metaKey ? null : event.target.closest("[data-go-on]");
    if (next) {
      event.preventDefault();
      finish();
      const words = sendWords();
      if (!goOn()) atMost(3000, words).then(() => { window.location.assign(next.href); });
      return;
    }
    const toggle = event.target.closest("[data-focus-mode]");
    if (toggle) { setFocus(!doc.documentElement.hasAttribute("data-focus")); return; }
  });
  doc.addEventListener("change", (event) => {
    if (event.target.matches("[data-submit]")) event.target.form.requestSubmit();
  });
  doc.addEventListener("submit", (event) => {
    const asked = event.submitter && event.submitter.dataset.ask || event.target.dataset.ask;
    if (asked && !window.confirm(asked)) { event.preventDefault(); event.stopImmediatePropagation(); return; }
    if (event.target.matches("[data-after-words]") && PERSON) { event.preventDefault(); afterWords(event.target); }
  }, true);

  // -- what a person says is kept here, under their id, until the server has it ------------------------------------
  const meta = (name) => { const found = doc.querySelector(`meta[name=${name}]`); return found ? found.content : ""; };
  const PERSON = meta("person");
  const STORE = `memalign-unsaved:${PERSON}`;
  const PAUSE = 600; // milliseconds after the last key
  const UNDER_WAY = 20000; // an answer that is younger may still be on its way, and words of another window still typed
  const OFTEN = 15000; // how long to wait after "too many requests"
  const AGAIN = 3000;
  const RETRIED = ["connection", "problem"]; // the others wait until the page is loaded again
  let memory = "{}"; // where the browser has no store
  // Of two windows each sends its own; what a closed one left behind is sent when it has waited long enough.
  let here = Math.random().toString(36).slice(2);
  try { here = sessionStorage.getItem("memalign-window") || here; sessionStorage.setItem("memalign-window", here); } catch { /* see below */ }

  // answers: the form's id -> {to, body, case, key, words, window, at, why, told}
  // words: the card's key -> {to, case, words, revision, done, window, at, why, told}
  const unsaved = () => {
    let text = memory;
    try { text = localStorage.getItem(STORE) || "{}"; } catch { /* private windows have no store */ }
    let kept = {};
    try { kept = JSON.parse(text); } catch { /* not ours */ }
    return { answers: kept.answers || {}, words: kept.words || {} };
  };
  const keep = (all) => {
    const empty = !Object.keys(all.answers).length && !Object.keys(all.words).length;
    memory = JSON.stringify(all);
    if (!PERSON) return;
    try { if (empty) localStorage.removeItem(STORE); else localStorage.setItem(STORE, memory); } catch { /* see above */ }
  };
  const change = (what) => { const all = unsaved(); what(all); keep(all); tell(); };
  const entries = () => { const all = unsaved(); return [...Object.values(all.answers), ...Object.values(all.words)]; };

  let last = null; // what is told although nothing waits any more: [why, words]
  const tell = () => {
    const line = doc.getElementById("line");
    if (!line) return;
    const waiting = entries().filter((entry) => entry.why);
    let shown = null;
    for (const span of line.querySelectorAll("[data-why]")) {
      const of = waiting.find((entry) => entry.why === span.dataset.why);
      const words = of ? of.told : last && last[0] === span.dataset.why ? last[1] : null;
      span.hidden = shown !== null || (!of && words === null);
      if (span.hidden) continue;
      shown = span;
      if (span.dataset.why === "said") span.textContent = words || "";
    }
    line.hidden = shown === null;
  };
  const whyOf = (status) => {
    if (!status) return "connection";
    if (status >= 500) return "problem";
    return { 401: "session", 403: "refused", 413: "large", 429: "often" }[status] || "";
  };
  const elsewhere = (entry) => entry.window !== here && Date.now() - entry.at < UNDER_WAY;
  const waits = (entry) => {
    if (elsewhere(entry)) return true;
    if (entry.why === "often") return Date.now() - entry.at < OFTEN;
    return Boolean(entry.why) && !RETRIED.includes(entry.why);
  };

  const post = (to, body, more) => fetch(to, {
    method: "POST", body,
    headers: { "Content-Type": "application/x-www-form-urlencoded", ...more.headers },
    keepalive: Boolean(more.keepalive), signal: more.signal, redirect: "error",
  });

  // -- words ---------------------------------------------------------------------------------------------------------
  const keyOf = (card) => `${card.dataset.words} ${card.dataset.case}`;
  const cardOf = (key) => { const card = doc.getElementById("card"); return card && card.dataset.words && keyOf(card) === key ? card : null; };
  const fieldOf = (card) => card && card.querySelector("textarea[name=rationale]");
  const saved = (card, yes) => { const mark = card && card.querySelector("[data-saved]"); if (mark) mark.hidden = !yes; };
  const together = (one, other) => (other.includes(one) ? other : one.includes(other) ? one : `${one}\n${other}`);
  const held = new Set(); // cases whose answer is on its way, with their words
  let sendingWords = null; // what is under way: {key, stop}
  let pause = 0;

  const note = (card, done) => {
    const field = fieldOf(card);
    if (!field || !PERSON) return;
    last = null;
    saved(card, false);
    change((all) => {
      const before = all.words[keyOf(card)] || {};
      all.words[keyOf(card)] = {
        to: card.dataset.words, case: card.dataset.case, words: field.value, revision: Number(card.dataset.revision),
        done: Boolean(done || before.done), window: here, at: Date.now(),
      };
    });
  };
  // The words beside a verdict belong to it as soon as the person goes on.
  const finish = () => {
    const card = doc.querySelector("#card.done");
    const field = fieldOf(card);
    if (field && field.value.trim() !== field.dataset.said.trim()) note(card, true);
  };
  // A card that arrives has the server's words: what was typed since comes with it.
  const arrive = (card) => {
    const field = fieldOf(card);
    const entry = field && unsaved().words[keyOf(card)];
    if (!entry) return;
    const revision = Number(card.dataset.revision);
    const words = entry.revision === revision ? entry.words : together(field.value, entry.words);
    field.value = words;
    change((all) => { Object.assign(all.words[keyOf(card)] || {}, { words, revision }); });
  };
  const bodyOf = (entry) => {
    const body = new URLSearchParams({ case: entry.case, words: entry.words, revision: entry.revision });
    if (entry.done) body.append("done", "true");
    return body;
  };
  const sendOne = async (key, entry) => {
    const stop = new AbortController();
    sendingWords = { key, stop };
    let status = 0, said = {};
    try {
      const answer = await post(entry.to, bodyOf(entry), {
        headers: { Accept: "application/json" }, signal: AbortSignal.any([stop.signal, AbortSignal.timeout(15000)]),
      });
      status = answer.status;
      said = await answer.json().catch(() => ({}));
    } catch { /* no connection */ } finally { sendingWords = null; }
    if (stop.signal.aborted) return;
    const card = cardOf(key);
    change((all) => {
      const now = all.words[key];
      if (!now) return;
      const typedSince = now.words !== entry.words || now.done !== entry.done;
      if (status === 200) {
        if (card) { card.dataset.revision = said.revision; }
        if (card && entry.done && !said.problem) fieldOf(card).dataset.said = entry.words;
        if (typedSince) Object.assign(now, { revision: said.revision, why: undefined }); else delete all.words[key];
        if (!typedSince) saved(card, true);
        if (said.problem) last = ["said", said.problem];
      } else if (status === 409) {
        now.words = together(said.words, now.words);
        now.revision = said.revision;
        if (card) { card.dataset.revision = said.revision; fieldOf(card).value = now.words; }
      } else if (status === 404 || status === 410) {
        delete all.words[key];
        last = ["gone", ""];
      } else {
        Object.assign(now, { why: whyOf(status) || "said", told: said.detail || "", at: Date.now() });
      }
    });
    if (status === 409) await sendOne(key, unsaved().words[key]);
  };
  let queue = Promise.resolve(); // one after the other, in their order
  const inTurn = (work) => { queue = queue.then(work).catch(() => {}); return queue; };
  const sendWords = () => {
    clearTimeout(pause);
    return inTurn(async () => {
      for (const [key, entry] of Object.entries(unsaved().words)) if (!held.has(key) && !waits(entry)) await sendOne(key, entry);
    });
  };
  // Whoever leaves waits for nothing: the browser sends these after the page is gone.
  const leave = () => {
    for (const [key, entry] of Object.entries(unsaved().words)) {
      if (held.has(key) || waits(entry)) continue;
      try { post(entry.to, bodyOf(entry), { headers: { Accept: "application/json" }, keepalive: true }).catch(() => {}); } catch { /* too long for it */ }
    }
  };
  doc.addEventListener("input", (event) => {
    if (!event.target.matches("#card textarea[name=rationale]")) return;
    note(doc.getElementById("card"));
    clearTimeout(pause);
    pause = setTimeout(sendWords, PAUSE);
  });
  doc.addEventListener("focusout", (event) => { if (event.target.matches("#card textarea[name=rationale]")) sendWords(); });
  doc.addEventListener("visibilitychange", () => { if (doc.visibilityState === "hidden") leave(); });
  window.addEventListener("pagehide", leave);

  const atMost = (milliseconds, work) => Promise.race([work, new Promise((done) => { setTimeout(done, milliseconds); })]);
  const afterWords = async (form) => {
    const leaving = form.dataset.unsaved;
    await atMost(3000, sendAgain());
    const card = doc.getElementById("card");
    const typed = card && card.dataset.words ? unsaved().words[keyOf(card)] : null;
    const stay = leaving ? entries().length && !window.confirm(leaving) : typed || entries().some((entry) => entry.why === "connection");
    if (!stay) form.submit();
  };

  // -- answers -------------------------------------------------------------------------------------------------------
  const formOf = (event) => {
    const sent = event.detail.requestConfig && event.detail.requestConfig.parameters;
    return (sent && (sent instanceof FormData ? sent.get("form") : sent.form)) || null;
  };
  // What became of an answer: its words wait with it, and go with it.
  const settle = (form, status) => {
    change((all) => {
      const answer = all.answers[form];
      if (!answer) return;
      held.delete(answer.key);
      const words = new URLSearchParams(answer.body).get("rationale") || "";
      const draft = all.words[answer.key];
      const why = whyOf(status);
      if (why) { Object.assign(answer, { why, at: Date.now() }); return; }
      delete all.answers[form];
      if (status === 404 || status === 410) { delete all.words[answer.key]; last = ["gone", ""]; return; }
      if (status < 300 && draft && draft.words === words) delete all.words[answer.key];
      if (status >= 300 && words && !draft) {
        all.words[answer.key] = { to: answer.words, case: answer.case, words, revision: 0, done: false, window: here, at: Date.now() };
      }
    });
  };
  doc.addEventListener("htmx:beforeRequest", (event) => {
    const form = event.detail.elt;
    if (!form.matches("form[data-answer]") || !PERSON) return;
    const card = form.closest("#card");
    const sent = event.detail.requestConfig.parameters;
    const body = new URLSearchParams();
    for (const [name, value] of sent instanceof FormData ? sent.entries() : Object.entries(sent)) body.append(name, value);
    last = null;
    held.add(keyOf(card));
    if (sendingWords && sendingWords.key === keyOf(card)) sendingWords.stop.abort();
    change((all) => {
      all.answers[formOf(event)] = {
        to: form.getAttribute("hx-post"), body: body.toString(), case: card.dataset.case, key: keyOf(card), words: card.dataset.words, window: here, at: Date.now(),
      };
    });
  });
  // The form is gone from the page when its answer is there: it is known by its id, not by its place.
  for (const end of ["htmx:beforeOnLoad", "htmx:afterRequest"]) {
    doc.addEventListener(end, (event) => {
      const form = formOf(event);
      if (form && unsaved().answers[form]) settle(form, event.detail.xhr ? event.detail.xhr.status : 0);
    });
  }
  const sendAnswer = async (form, answer) => {
    let status = 0, text = "";
    try {
      const found = await post(answer.to, answer.body, { headers: { "HX-Request": "true" }, signal: AbortSignal.timeout(15000) });
      status = found.status;
      text = await found.text();
    } catch { /* no connection */ }
    const holder = doc.createElement("div");
    holder.innerHTML = text;
    const card = cardOf(answer.key);
    const next = holder.querySelector("#card");
    settle(form, status);
    if (card && next && !whyOf(status)) { card.replaceWith(next); htmx.process(next); arrive(next); }
  };
  const sendAgain = () => {
    if (!PERSON) return queue;
    inTurn(async () => {
      for (const [form, answer] of Object.entries(unsaved().answers)) {
        const underWay = !answer.why && Date.now() - answer.at < UNDER_WAY;
        if (!underWay && !waits(answer)) await sendAnswer(form, answer);
      }
    });
    return sendWords();
  };
  // What the server says of a wrong input is shown where the answer would be.
  doc.addEventListener("htmx:beforeSwap", (event) => {
    if ([409, 422].includes(event.detail.xhr.status)) { event.detail.shouldSwap = true; event.detail.isError = false; }
  });
  doc.addEventListener("htmx:afterSwap", () => {
    const card = doc.getElementById("card");
    if (card) arrive(card);
    if (card && card.dataset.announce) announce(card.dataset.announce);
    // The button that was pressed went with the old card: the focus must not fall back to the top of the page.
    if (card && doc.activeElement === doc.body) card.focus({ preventScroll: true });
  });

  // -- files dropped ---------------------------------------------------------------------------------------------
  const droppable = (zone) => {
    const input = zone.querySelector("input[type=file]");
    for (const kind of ["dragover", "dragenter"]) zone.addEventListener(kind, (event) => { event.preventDefault(); zone.toggleAttribute("data-over", true); });
    zone.addEventListener("dragleave", () => zone.toggleAttribute("data-over", false));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      zone.toggleAttribute("data-over", false);
      if (input && event.dataTransfer.files.length) { input.files = event.dataTransfer.files; input.form.requestSubmit(); }
    });
  };

  const start = () => {
    setFocus(focused());
    const card = doc.getElementById("card");
    if (card) arrive(card);
    // What waits from the page before is tried at once.
    change((all) => {
      for (const entry of [...Object.values(all.answers), ...Object.values(all.words)]) if (!elsewhere(entry)) Object.assign(entry, { why: undefined, at: 0, window: here });
    });
    const tab = doc.querySelector("nav a[aria-current]");
    if (tab) tab.parentElement.scrollLeft = tab.offsetLeft - (tab.parentElement.clientWidth - tab.offsetWidth) / 2;
    for (const zone of doc.querySelectorAll("[data-drop]")) droppable(zone);
    sendAgain();
    window.addEventListener("online", sendAgain);
    window.addEventListener("pageshow", sendAgain);
    setInterval(sendAgain, AGAIN);
  };
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", start); else start();
})();
