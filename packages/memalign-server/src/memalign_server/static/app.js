// Keys, forms that wait for the line, and parts of a page that change in place. No library, nothing from another host.
//
// Only this file makes requests: no attribute that somebody writes into a text does anything. An answer is read as HTML
// only where its content type says so, and its parts come from the server's templates, in which every text is escaped.
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
    const pressed = [...doc.querySelectorAll("[data-key]")].find((element) => (
      element.dataset.key === key.toLowerCase() && !element.disabled && element.offsetParent));
    if (!pressed) return;
    event.preventDefault();
    if (!event.repeat) pressed.click(); // a key that is held down is pressed once
  });

  // -- the one way to ask the server --------------------------------------------------------------------------------
  const PATIENCE = 15000; // milliseconds
  const WHY = { 0: "connection", 401: "session", 403: "refused", 413: "large", 429: "often" };
  const whyNot = (status) => (status >= 500 ? "problem" : WHY[status]);
  const read = (status, text, headers) => {
    const kind = (headers.get("content-type") || "").split(";")[0].trim();
    return {
      status,
      page: kind === "text/html" ? new DOMParser().parseFromString(text, "text/html") : null,
      data: kind === "application/json" ? JSON.parse(text) : null,
      plain: kind === "text/plain" ? text : null,
      goTo: headers.get("X-Go-To"),
      address: headers.get("X-Address"),
    };
  };
  const ask = async (to, { headers, patience = PATIENCE, ...how } = {}) => {
    const asked = { ...how, headers: { "X-Part": "true", ...headers }, redirect: "error" };
    try {
      const answer = await fetch(to, { ...asked, signal: AbortSignal.timeout(patience) });
      return read(answer.status, await answer.text(), answer.headers);
    } catch { return { status: 0 }; }
  };
  const said = (answer) => answer.page?.querySelector("[role=alert]");
  const go = (to) => {
    typing = null;
    const { pathname, search } = window.location;
    if (pathname + search === to) window.location.reload(); else window.location.assign(to);
  };

  // -- forms with data-kept, answers and words: kept here under the person's id until the server has them ------------
  // Each may be sent twice: the server knows an answer by its form, and joins the words that it has with what comes.
  const PERSON = one("meta[name=person]")?.content || "";
  const STORE = `memalign-unsaved:${PERSON}`;
  let store = {}, tab = {}; // of this page alone, where the browser has none
  try { [store, tab] = [localStorage, sessionStorage]; } catch { /* it is forbidden */ }
  const [TYPED, AGAIN, ON_ITS_WAY] = [600, 3000, 20000]; // milliseconds
  const WAIT = { connection: AGAIN, problem: AGAIN, often: 5 * AGAIN }; // the others wait until a page is loaded
  let refusal = null; // what is shown although nothing waits any more: {why, words}
  let silence = null; // why what is watched says nothing
  let slow = 0;

  // The form's id -> {to, fields, next: when it is sent, by: the window that sends and shows it, why it waits}
  const WINDOW = Math.random();
  const unsaved = () => JSON.parse(store[STORE] || "{}");
  const change = (what) => {
    const all = unsaved();
    what(all);
    if (Object.keys(all).length) store[STORE] = JSON.stringify(all); else delete store[STORE];
    showState(Object.values(all));
  };
  const showState = (entries) => {
    const waiting = entries.map((entry) => entry.why).find(Boolean);
    const why = waiting || refusal?.why || silence;
    for (const span of doc.querySelectorAll("#line [data-why]")) span.hidden = span.dataset.why !== why;
    one("#line [data-why=said]").textContent = refusal?.words || "";
    one("#line").hidden = !why;
    doc.documentElement.toggleAttribute("data-waiting", Boolean(waiting));
    clearTimeout(slow);
    if (entries.length) slow = setTimeout(() => doc.documentElement.setAttribute("data-saving", ""), 1000);
    else doc.documentElement.removeAttribute("data-saving");
  };
  const keep = (form, button, delay, more) => {
    const fields = { ...Object.fromEntries(new FormData(form, button)), ...more };
    refusal = null;
    const to = form.getAttribute("action");
    change((all) => { all[fields.form] = { to, fields, by: WINDOW, next: Date.now() + delay }; });
  };
  const formOf = ({ to, fields }) => [...doc.querySelectorAll("form[data-kept]")].find((form) => (
    form.getAttribute("action") === to && form.elements.case.value === fields.case
    && form.elements.content.value === fields.content));
  // A verdict that waits for the server is seen to be chosen.
  const mark = (form, { value }) => {
    for (const button of form.querySelectorAll("button[name=value]")) {
      button.setAttribute("aria-pressed", String(button.value === value));
    }
  };

  // -- sending: one form after the other, in their order ----------------------------------------------------------
  const post = ({ to, fields }) => {
    const body = new URLSearchParams(fields);
    const keepalive = body.toString().length < 60000; // sent even if the page goes; browsers take no more
    return ask(to, { method: "POST", body, keepalive });
  };
  // What the server answers takes its place on the page, if that still shows the case.
  const show = (entry, { page, data, goTo }, typedSince) => {
    const form = formOf(entry);
    const foot = page?.getElementById("foot");
    if (!form) return;
    if (goTo) {
      if (!typedSince) go(goTo);
    } else if (foot) {
      one("#foot").replaceWith(foot);
      arrive();
    } else if (data) showWords(entry, form, data, typedSince);
  };
  // The words are the server's, if another window has typed too.
  const showWords = ({ fields }, form, { words, revision }, typedSince) => {
    const field = form.elements.words;
    if (words === fields.words || field.value === fields.words) form.elements.revision.value = revision;
    if (field.value === fields.words) field.value = words;
    if (!typedSince) one("#foot").dataset.words = "saved";
  };
  const send = async (id, entry) => {
    change((all) => { if (all[id]) all[id].next = Date.now() + ON_ITS_WAY; });
    const answer = await post(entry);
    const why = whyNot(answer.status);
    const isSent = (now) => JSON.stringify(now?.fields) === JSON.stringify(entry.fields);
    if (!why) show(entry, answer, !isSent(unsaved()[id]));
    const refused = !why && answer.status >= 400 && !answer.page?.getElementById("foot");
    if (refused && answer.status === 410) refusal = { why: "gone" };
    else if (refused) refusal = { why: "said", words: said(answer)?.textContent ?? answer.plain };
    change((all) => {
      if (why && all[id]) Object.assign(all[id], { why, by: WINDOW, next: Date.now() + (WAIT[why] || 1e12) });
      else if (refused || isSent(all[id])) delete all[id];
      else if (all[id]) all[id].fields.revision = formOf(entry)?.elements.revision.value ?? entry.fields.revision;
    });
  };
  let queue = Promise.resolve();
  const sendDue = () => {
    queue = queue.then(async () => {
      const isDue = ({ by, next }) => next + (by === WINDOW ? 0 : 2 * AGAIN) <= Date.now(); // another may be closed
      const due = Object.entries(PERSON ? unsaved() : {}).filter(([, entry]) => isDue(entry));
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
    if (event.submitter?.name === "value") mark(form, event.submitter);
    sendDue();
  });
  let typing = null, pause = 0;
  doc.addEventListener("input", ({ target }) => {
    if (target.matches("[data-kept] textarea[name=value]")) tab[typedAnswer(target.form)] = target.value;
    if (!target.matches("[data-kept] textarea[name=words]")) return;
    typing = target.form;
    delete one("#foot").dataset.words;
    keep(typing, null, TYPED);
    clearTimeout(pause);
    pause = setTimeout(sendDue, TYPED + 10);
  });
  // Where an answer in words is until it is saved: in its tab, from where nothing sends it.
  const typedAnswer = ({ elements }) => (
    `memalign-typed:${PERSON}:${window.location.pathname}:${elements.case.value}:${elements.content.value}`);
  // Whoever leaves waits for nothing: the browser sends the words after the page is gone, and they are the answer's.
  const leave = () => { if (typing?.isConnected) { keep(typing, null, 0, { go: "leave" }); sendDue(); } };
  doc.addEventListener("visibilitychange", () => { if (doc.visibilityState === "hidden") leave(); });
  window.addEventListener("pagehide", leave);

  // -- what arrives: a foot has the server's words, and what was typed since comes with it; times; what is watched ----
  const arrive = (root = doc) => {
    showTimes(root);
    for (const element of root.querySelectorAll("[data-poll]")) watch(element);
    const foot = one("#foot");
    if (!foot || !root.contains(foot)) return;
    if (foot.dataset.here) window.history.replaceState(null, "", foot.dataset.here);
    for (const entry of Object.values(unsaved())) {
      const form = formOf(entry);
      if (form?.elements.words && "words" in entry.fields) form.elements.words.value = entry.fields.words;
      else if (form && "value" in entry.fields) mark(form, entry.fields);
    }
    const answer = foot.querySelector("textarea[name=value]");
    if (answer) answer.value = tab[typedAnswer(answer.form)] ?? answer.value;
    else if (foot.matches(".turned")) delete tab[typedAnswer(foot.querySelector("form"))];
    if (foot.dataset.announce) one("#live").textContent = foot.dataset.announce;
    const free = doc.activeElement === doc.body || doc.activeElement.closest("#foot, .head");
    const first = free ? foot.querySelector("[autofocus]") : null;
    first?.focus({ preventScroll: true });
    if (first?.matches("textarea")) first.setSelectionRange(first.value.length, first.value.length);
  };

  // -- what is watched: an element with data-poll asks there every second, until something else takes its place ------
  const watched = new WeakSet();
  const watch = async (element) => {
    if (watched.has(element)) return;
    watched.add(element);
    while (element.isConnected) {
      await new Promise((happened) => { setTimeout(happened, 1000); });
      const answer = element.isConnected ? await ask(element.dataset.poll, { patience: PATIENCE / 2 }) : null;
      if (!answer || !element.isConnected) return;
      silence = { connection: "silent", problem: "silent", often: "silent", session: "session" }[whyNot(answer.status)];
      change(() => {});
      if (answer.goTo) { // a page that shows the job already is loaded again as it is: its address may say more
        go(window.location.href.includes(answer.goTo) ? window.location.pathname + window.location.search : answer.goTo);
        return;
      }
      if (answer.page && answer.status < 400) replace(element, answer.page, element.id && `#${element.id}`);
      else if (!silence && answer.status >= 400) { silence = "ended"; change(() => {}); return; }
    }
  };
  const replace = (element, page, selector) => {
    const part = selector ? page.querySelector(selector) : page.body.firstElementChild;
    if (!part) return;
    element.replaceWith(part);
    arrive(part.parentNode);
  };

  // -- parts: a form with data-part is answered in place, by the part of that name, or by a page to go to -------------
  // What cannot be undone asks for a value that the server has signed for that very form: it goes as a header, and what
  // is outside the form says nothing.
  const fieldsOf = (form, button) => {
    const outside = [...form.elements].filter((field) => !form.contains(field) && !field.disabled);
    for (const field of outside) field.disabled = true;
    const fields = new FormData(form, button?.type === "submit" && form.contains(button) ? button : null);
    for (const field of outside) field.disabled = false;
    return fields;
  };
  let waiting = 0;
  const busy = (form, is) => {
    const late = form.querySelector(".late");
    clearTimeout(waiting);
    if (late) late.hidden = true;
    if (late && is) waiting = setTimeout(() => { late.hidden = false; }, PATIENCE / 5);
    if (is) form.setAttribute("aria-busy", "true"); else form.removeAttribute("aria-busy");
    for (const line of form.querySelectorAll(".busy")) line.hidden = !is;
  };
  // What changes while an answer is on its way is sent after it: that answer knows nothing of it and is not shown.
  const changedSince = new WeakSet();
  // Another button that is pressed meanwhile is marked, and pressed again once the answer is there.
  const [underWay, pressedSince] = [new WeakMap(), new WeakMap()];
  const pressAgain = (form) => {
    const button = pressedSince.get(form);
    pressedSince.delete(form);
    button?.removeAttribute("aria-busy");
    if (!button || !form.isConnected) return;
    const same = [...form.querySelectorAll("button")].find(({ name, value }) => name === button.name && value === button.value);
    (button.isConnected ? button : same)?.click();
  };
  const sendPart = async (form, button, to, target) => {
    if (form.hasAttribute("aria-busy")) {
      if (button && button !== underWay.get(form)) {
        pressedSince.set(form, button);
        button.setAttribute("aria-busy", "true");
      } else if (!button && form.dataset.send) changedSince.add(form);
      return;
    }
    underWay.set(form, button);
    clearFaults(form);
    const fields = fieldsOf(form, button);
    const headers = form.dataset.hand ? { "X-By-Hand": form.dataset.hand } : {};
    busy(form, true);
    const isFile = form.enctype === "multipart/form-data";
    const answer = isFile
      ? await upload(form, to, fields, headers)
      : await ask(to, { method: "POST", body: new URLSearchParams(fields), headers, patience: 2 * PATIENCE });
    busy(form, false);
    if (changedSince.delete(form) && !button && !answer.goTo) {
      sendPart(form, null, to, target);
      return;
    }
    const place = target && one(target);
    if (answer.goTo) { if (form.dataset.send !== "typed") go(answer.goTo); }
    else if (place && answer.page?.querySelector(target) && answer.status < 400) {
      if (answer.address) window.history.pushState(null, "", answer.address);
      replace(place, answer.page, target);
    } else if (answer.status >= 400 || !answer.status) showFault(form, answer);
    if (!answer.goTo) pressAgain(form);
  };
  const clearFaults = (form) => {
    for (const fault of form.querySelectorAll(".fault")) fault.remove();
    for (const field of form.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
  };
  // What is wrong stands beside the field that it is about, and what was typed stays.
  const showFault = (form, answer) => {
    const words = answer.status === 401 ? null : said(answer);
    const WORDS = { connection: "unsent", large: "file", session: "session", often: "often" };
    const standard = one(`#line [data-why=${WORDS[whyNot(answer.status)] || "failed"}]`);
    const name = words?.dataset.field;
    const field = name ? form.querySelector(`[name="${CSS.escape(name)}"]`) : null;
    const fault = doc.createElement("p");
    fault.className = "fault warn-text";
    fault.id = `fault-${name || "form"}`;
    fault.setAttribute("role", "alert");
    const plain = answer.status < 500 && !WORDS[whyNot(answer.status)] ? answer.plain : null;
    fault.textContent = (words?.textContent ?? plain ?? standard.textContent).trim().replace(/\s+/g, " ");
    const place = field?.closest(".field") || form.querySelector(".faults") || form;
    place.append(fault);
    if (!field) return;
    field.setAttribute("aria-invalid", "true");
    field.setAttribute("aria-describedby", fault.id);
    const folded = field.closest("details");
    if (folded) folded.open = true;
    field.focus();
  };
  doc.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("[data-part]")) return;
    event.preventDefault();
    sendPart(form, event.submitter, form.getAttribute("action"), form.dataset.part);
  });
  doc.addEventListener("change", ({ target }) => {
    const form = target.form;
    if (form?.dataset.send === "changed") sendPart(form, null, form.getAttribute("action"), form.dataset.part);
    else if (form?.dataset.count) count(form);
  });
  let counted = 0;
  const count = async (form) => {
    const number = counted += 1;
    const answer = await ask(form.dataset.count, { method: "POST", body: new URLSearchParams(fieldsOf(form, null)) });
    if (number === counted && answer.page && answer.status < 400) replace(one("#ticks"), answer.page, "#ticks");
  };
  let saving = 0;
  doc.addEventListener("input", ({ target: { form } }) => {
    if (form?.dataset.send !== "typed") return;
    clearTimeout(saving);
    saving = setTimeout(() => sendPart(form, null, form.getAttribute("action"), ""), TYPED);
  });

  // -- files: how far one is, what is too large, and a server that says nothing --------------------------------------
  const upload = (form, to, fields, headers) => new Promise((happened) => {
    const bar = form.querySelector("progress");
    const file = [...fields.values()].find((value) => value instanceof File);
    if (file && file.size > Number(form.dataset.most || Infinity)) { happened({ status: 413 }); return; }
    const request = new XMLHttpRequest();
    request.open("POST", to);
    for (const [name, value] of Object.entries({ "X-Part": "true", ...headers })) request.setRequestHeader(name, value);
    request.upload.onprogress = ({ loaded, total }) => {
      busy(form, true); // it moves
      if (bar && loaded < total) bar.value = loaded / total; else bar?.removeAttribute("value");
    };
    request.onload = () => {
      happened(read(request.status, request.responseText, { get: (name) => request.getResponseHeader(name) }));
    };
    request.onerror = () => happened({ status: 0 });
    request.send(fields);
  });
  const boxOf = (event) => (event.dataTransfer?.types.includes("Files") ? event.target.closest(".drop") : null);
  doc.addEventListener("dragover", (event) => { if (boxOf(event)) event.preventDefault(); });
  doc.addEventListener("drop", (event) => {
    const field = boxOf(event)?.querySelector("input[type=file]");
    if (!field) return;
    event.preventDefault();
    field.files = event.dataTransfer.files;
    field.dispatchEvent(new Event("change", { bubbles: true }));
  });

  // -- what else is pressed: a model that is tried, a word that is added, a link that is copied, a page that is printed
  doc.addEventListener("click", async (event) => {
    const { target } = event;
    const button = target.closest("button[data-to], a[data-part]");
    const copy = target.closest("[data-copy]");
    if (button?.matches("button")) sendPart(button.form, button, button.dataset.to, button.dataset.part);
    else if (button) {
      event.preventDefault();
      const answer = await ask(button.dataset.to);
      const place = one(button.dataset.part);
      if (answer.page && answer.status < 400 && place) replace(place, answer.page, button.dataset.part);
      else window.location.assign(button.href);
    } else if (copy) {
      const text = one(copy.dataset.copy);
      window.getSelection().selectAllChildren(text);
      if (navigator.clipboard) await navigator.clipboard.writeText(text.textContent);
      else doc.execCommand("copy"); // on a page without TLS there is no other way
      copy.textContent = copy.dataset.copied;
    } else if (target.closest("[data-print]")) window.print();
  });

  // -- times in the reader's zone, in the language of the page ----------------------------------------------------
  const DAY = { year: "numeric", month: "short", day: "numeric" };
  const TIME = { hour: "2-digit", minute: "2-digit", timeZoneName: "short" };
  const showTimes = (root) => {
    const format = new Intl.DateTimeFormat(doc.documentElement.lang, { ...DAY, ...TIME });
    for (const time of root.querySelectorAll("time")) time.textContent = format.format(new Date(time.dateTime));
  };

  const start = () => {
    arrive();
    change((all) => { for (const entry of Object.values(all)) Object.assign(entry, { why: undefined, next: 0 }); });
    sendDue();
    window.addEventListener("online", sendDue);
    setInterval(sendDue, AGAIN / 3);
  };
  if (doc.readyState === "loading") doc.addEventListener("DOMContentLoaded", start); else start();
})();
