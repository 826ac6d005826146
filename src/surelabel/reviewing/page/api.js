// Requests to the server. Responses are data: show them with textContent, never as HTML.

let key = "";

export class Refused extends Error {
  constructor(status, message, rows) {
    super(message);
    this.status = status;
    this.rows = rows || [];
  }
}

async function readResponse(response) {
  const isJson = (response.headers.get("content-type") || "").startsWith("application/json");
  const content = isJson ? await response.json() : await response.text();
  if (response.ok) return content;
  const text = isJson ? content.error || "The server did not understand the page." : content;
  throw new Refused(response.status, text, content.rows);
}

async function request(address, options) {
  let response;
  try {
    response = await fetch(address, { credentials: "same-origin", cache: "no-store", ...options });
  } catch {
    throw new Refused(0, "The server does not answer. Start it again with `surelabel review`, and open the address that it prints.");
  }
  return readResponse(response);
}

function query(filter, more = {}) {
  const parts = Object.entries({ ...filter, ...more }).filter(([, value]) => value !== null && value !== "");
  return new URLSearchParams(parts).toString();
}

const post = (address, body) =>
  request(address, {
    method: "POST",
    headers: { "content-type": "application/json", "x-surelabel-key": key },
    body: JSON.stringify(body),
  });

export async function getRun() {
  const run = await request("/api/run");
  key = run.key;
  return run;
}

export const getRows = (filter, after, order, count = null) => request(`/api/rows?${query(filter, { after, order, count })}`);
export const getProgress = (filter, order, numbers) =>
  request(`/api/progress?${query(filter, { order, numbers: numbers.join(",") })}`);
export const getValues = (row) => request(`/api/values/${encodeURIComponent(row.split)}/${row.position}`);
export const getWhy = (row) => request(`/api/why/${encodeURIComponent(row.split)}/${row.position}`);
export const getOverview = (filter) => request(`/api/overview?${query(filter)}`);
export const imageAddress = (row) => `/image/${encodeURIComponent(row.split)}/${row.position}`;
export const originalAddress = (row, side = null) =>
  `/original/${encodeURIComponent(row.split)}/${row.position}${side === null ? "" : `?side=${side}`}`;
export const postDecisions = (decisions, queue) => post("/api/decisions", { decisions, queue });
export const postSample = (count) => post("/api/sample", { count });
export const postExport = () => post("/api/export", {});
