// Questions to the server. A new view ends those of the one before.
let running = new AbortController();
let waiting = 0;

/** Ends the questions of the view before, and returns the signal of the new one. */
function begin() {
  running.abort();
  running = new AbortController();
  waiting = 0;
  document.body.dataset.busy = "no";
  showBusy("");
  return running.signal;
}

function showBusy(text, isError) {
  const busy = $("busy");
  busy.textContent = text;
  busy.className = isError ? "error" : "";
  $("stop").hidden = waiting === 0 || !text;
}

function stop() {
  running.abort();
  waiting = 0;
  document.querySelectorAll("iframe").forEach((frame) => frame.remove());
  document.body.dataset.busy = "no";
  showBusy("Stopped.");
}

/** Counts work of the view until `done` settles. */
async function waitFor(signal, done) {
  waiting++;
  document.body.dataset.busy = "yes";
  const slow = setTimeout(() => !signal.aborted && waiting && showBusy("Reading…"), 300);
  try {
    return await done;
  } catch (error) {
    if (!signal.aborted) {
      waiting = Math.max(1, waiting);
      document.body.dataset.failed = String(error.message);
      showBusy(error.message, true);
      $("stop").hidden = true;
    }
    throw error;
  } finally {
    clearTimeout(slow);
    if (!signal.aborted) {
      waiting--;
      if (waiting <= 0) {
        document.body.dataset.busy = "no";
        if ($("busy").className !== "error") showBusy("");
      }
    }
  }
}

/** Asks a question; the answer comes after lines with the progress. */
function ask(path, query, signal) {
  return waitFor(signal, lines(path, query, signal));
}

async function lines(path, query, signal) {
  const response = await fetch(`${path}?${query}`, { signal, credentials: "same-origin" });
  if (!response.ok) throw new Error((await response.text()).trim());
  const reader = response.body.getReader(), decoder = new TextDecoder();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    rest += decoder.decode(value, { stream: !done });
    const ends = rest.lastIndexOf("\n");
    for (const line of rest.slice(0, Math.max(0, ends)).split("\n").filter(Boolean)) {
      const message = JSON.parse(line);
      if ("answer" in message) return message.answer;
      if ("error" in message) throw new Error(message.error);
      const [read, parts] = message.progress;
      if (!signal.aborted) showBusy(parts ? `Reading: ${read} of ${parts} parts…` : "Reading…");
    }
    rest = rest.slice(ends + 1);
    if (done) throw new Error("The server ended before its answer.");
  }
}
