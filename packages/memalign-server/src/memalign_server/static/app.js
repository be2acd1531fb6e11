// Keys, and forms that wait for the line. No library but htmx, nothing from another host.
(() => {
  "use strict";
  const doc = document;
  const one = (selector) => doc.querySelector(selector);

  // -- keys: what has data-key is pressed by that key while no field has the focus; Enter in a field of words too ----
  const isField = (element) => element.matches("input:not([type=radio], [type=checkbox]), textarea, select");
  doc.addEventListener("keydown", (event) => {
    const { key, target } = event;
    if (event.isComposing || event.ctrlKey || event.metaKey || event.altKey) return;
    if (isField(target)) {
      if (key === "Escape") target.blur();
      if (key !== "Enter" || event.shiftKey || !target.matches("textarea[name=words]")) return;
    } else if (key === "Enter" && target.matches("a, button, summary")) return;
    for (const element of doc.querySelectorAll("[data-key]")) {
      if (element.dataset.key !== key.toLowerCase() || element.disabled || !element.offsetParent) continue;
      event.preventDefault();
      if (!event.repeat) element.click(); // a key that is held down is pressed once
      return;
    }
  });

  // -- forms with data-kept, answers and words: kept here under the person's id until the server has them ------------
  // Each may be sent twice: the server knows an answer by its form, and joins the words that it has with what comes.
  const PERSON = one("meta[name=person]")?.content || "";
  const STORE = `memalign-unsaved:${PERSON}`;
  const [TYPED, AGAIN, ON_ITS_WAY] = [600, 3000, 20000]; // milliseconds
  const WHY = { 401: "session", 403: "refused", 413: "large", 429: "often" };
  const WAIT = { connection: AGAIN, problem: AGAIN, often: 5 * AGAIN }; // the others wait until a page is loaded
  let memory = "{}"; // where the browser has no store
  let last = null; // what is told although nothing waits any more: [why, words]

  // The form's id -> {to, fields, next: when it is sent, why it waits}
  const unsaved = () => {
    try { return JSON.parse(localStorage.getItem(STORE) || "{}"); } catch { return JSON.parse(memory); }
  };
  let slow = 0;
  const change = (what) => {
    const all = unsaved();
    what(all);
    memory = JSON.stringify(all);
    try {
      if (memory === "{}") localStorage.removeItem(STORE); else localStorage.setItem(STORE, memory);
    } catch { /* private windows have no store */ }
    const why = Object.values(all).map((entry) => entry.why).find(Boolean) || (last && last[0]);
    for (const span of doc.querySelectorAll("#line [data-why]")) span.hidden = span.dataset.why !== why;
    one("#line [data-why=said]").textContent = last ? last[1] : "";
    one("#line").hidden = !why;
    clearTimeout(slow);
    if (memory === "{}") doc.documentElement.removeAttribute("data-saving");
    else slow = setTimeout(() => doc.documentElement.setAttribute("data-saving", ""), 1000);
  };
  const keep = (form, button, delay, more) => {
    const fields = { ...Object.fromEntries(new FormData(form, button)), ...more };
    last = null;
    change((all) => { all[fields.form] = { to: form.getAttribute("action"), fields, next: Date.now() + delay }; });
  };
  const formOf = ({ to, fields }) => [...doc.querySelectorAll("form[data-kept]")].find((form) => (
    form.getAttribute("action") === to && form.elements.case.value === fields.case));

  const parsed = (text) => new DOMParser().parseFromString(text, "text/html");
  // What the server answers takes its place on the page, if that still shows the case.
  const show = (entry, answer, text, typedSince) => {
    const form = formOf(entry);
    if (!form) return;
    const page = parsed(text);
    if (answer.headers.has("HX-Redirect")) {
      if (!typedSince) { typing = null; window.location.assign(answer.headers.get("HX-Redirect")); }
    } else if (page.getElementById("foot")) {
      one("#foot").replaceWith(page.getElementById("foot"));
      htmx.process(one("#foot"));
      arrive();
    } else if (answer.ok) { // words: the server's, if another window has typed too
      const { words, revision } = JSON.parse(text);
      const field = form.elements.words;
      if (words === entry.fields.words || field.value === entry.fields.words) form.elements.revision.value = revision;
      if (field.value === entry.fields.words) field.value = words;
      if (!typedSince) one("#foot").dataset.words = "saved";
    }
  };
  const send = async (id, entry) => {
    change((all) => { if (all[id]) all[id].next = Date.now() + ON_ITS_WAY; });
    const body = new URLSearchParams(entry.fields);
    const how = { headers: { "HX-Request": "true" }, redirect: "error", signal: AbortSignal.timeout(15000) };
    how.keepalive = body.toString().length < 60000; // sent even if the page goes; browsers take no more
    let answer = null, text = "";
    try {
      answer = await fetch(entry.to, { method: "POST", body, ...how });
      text = await answer.text();
    } catch { answer = null; }
    const why = !answer ? "connection" : answer.status >= 500 ? "problem" : WHY[answer.status];
    const sent = (now) => JSON.stringify(now?.fields) === JSON.stringify(entry.fields);
    if (!why) show(entry, answer, text, !sent(unsaved()[id]));
    const refused = !why && !answer.ok && !text.includes('id="foot"');
    const alert = refused && parsed(text).querySelector("[role=alert]");
    if (refused) last = answer.status === 410 ? ["gone", ""] : ["said", alert?.textContent];
    change((all) => {
      if (why && all[id]) Object.assign(all[id], { why, next: Date.now() + (WAIT[why] || 1e12) });
      else if (refused || sent(all[id])) delete all[id];
      else if (all[id]) all[id].fields.revision = formOf(entry)?.elements.revision.value ?? entry.fields.revision;
    });
  };
  let queue = Promise.resolve(); // one after the other, in their order
  const sendDue = () => {
    queue = queue.then(async () => {
      const due = Object.entries(PERSON ? unsaved() : {}).filter(([, entry]) => entry.next <= Date.now());
      for (const [id, entry] of due) await send(id, entry);
    }).catch(() => {});
  };
  doc.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-kept]") || !PERSON) return;
    event.preventDefault();
    const before = unsaved()[form.elements.form.value];
    if (before && !form.elements.words && before.next > Date.now() + AGAIN) return; // its answer is on its way
    keep(form, event.submitter, 0);
    sendDue();
  });
  let typing = null, pause = 0;
  doc.addEventListener("input", ({ target }) => {
    if (!target.matches("[data-kept] textarea[name=words]")) return;
    typing = target.form;
    delete one("#foot").dataset.words;
    keep(typing, null, TYPED);
    clearTimeout(pause);
    pause = setTimeout(sendDue, TYPED + 10);
  });
  // Whoever leaves waits for nothing: the browser sends the words after the page is gone, and they are the answer's.
  const leave = () => { if (typing?.isConnected) { keep(typing, null, 0, { go: "leave" }); sendDue(); } };
  doc.addEventListener("visibilitychange", () => { if (doc.visibilityState === "hidden") leave(); });
  window.addEventListener("pagehide", leave);

  // -- a foot that arrives has the server's words: what was typed since comes with it ----------------------------
  const arrive = () => {
    const foot = one("#foot");
    if (!foot) return;
    if (foot.dataset.here) window.history.replaceState(null, "", foot.dataset.here);
    for (const entry of Object.values(unsaved())) {
      const field = formOf(entry)?.elements.words;
      if (field && "words" in entry.fields) field.value = entry.fields.words;
    }
    if (foot.dataset.announce) one("#live").textContent = foot.dataset.announce;
    const free = doc.activeElement === doc.body || doc.activeElement.closest("#foot, .head");
    if (free) foot.querySelector("[autofocus]")?.focus({ preventScroll: true });
  };
  doc.addEventListener("htmx:afterSwap", arrive);

  // Set up: a link that is copied, a receipt that is printed
  doc.addEventListener("click", ({ target }) => {
    const copy = target.closest("[data-copy]");
    if (copy) navigator.clipboard?.writeText(copy.dataset.copy).then(() => { copy.textContent = copy.dataset.copied; });
    else if (target.closest("[data-print]")) window.print();
  });

  // times in the reader's zone, in the language of the page
  const [day, minute] = [{ year: "numeric", month: "short", day: "numeric" }, { hour: "2-digit", minute: "2-digit", timeZoneName: "short" }];
  doc.addEventListener("htmx:load", ({ target }) => {
    const format = new Intl.DateTimeFormat(doc.documentElement.lang, { ...day, ...minute });
    for (const time of target.querySelectorAll("time")) time.textContent = format.format(new Date(time.dateTime));
  });

  const start = () => {
    arrive();
    change((all) => { for (const entry of Object.values(all)) Object.assign(entry, { why: undefined, next: 0 }); });
    sendDue();
    window.addEventListener("online", sendDue);
    setInterval(sendDue, AGAIN / 3);
  };
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", start); else start();
})();
