// Requests to the server. Responses are data: show them with textContent, never as HTML.

const STORAGE_KEY = "surelabel-key";
let key = "";

/** Take the key from the address, or after a reload from this tab's storage; remove it from the address. */
export function takeKey() {
  const given = new URLSearchParams(location.hash.slice(1)).get("key");
  if (given) sessionStorage.setItem(STORAGE_KEY, given);
  key = sessionStorage.getItem(STORAGE_KEY) || "";
  history.replaceState(null, "", "/");
  addEventListener("hashchange", () => location.reload()); // a new address in the same tab loads no page by itself
}

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

/** Send a request with the key; it is in no cookie, which the browser would send to other ports too. */
const send = (address, { headers, ...options } = {}) =>
  fetch(address, { credentials: "omit", cache: "no-store", headers: { "x-surelabel-key": key, ...headers }, ...options });

async function request(address, options) {
  let response;
  try {
    response = await send(address, options);
  } catch {
    throw new Refused(0, "The server does not answer. Start it again with `surelabel review`, and open the address that it prints.");
  }
  return readResponse(response);
}

/** Return a picture as a Blob, or null if it cannot be read; decisions go before small pictures. */
export async function getPicture(address, signal, isSmall) {
  const response = await send(address, { signal, priority: isSmall ? "low" : "high" });
  return response.ok ? response.blob() : null;
}

function query(filter, more = {}) {
  const parts = Object.entries({ ...filter, ...more }).filter(([, value]) => value !== null && value !== "");
  return new URLSearchParams(parts).toString();
}

const post = (address, body) =>
  request(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const getRun = () => request("/api/run");
export const getRows = (filter, after, order, count = null) => request(`/api/rows?${query(filter, { after, order, count })}`);
/** Rows of the random sample have no number: the page knows nothing of them that could change. */
export const getProgress = (filter, order, numbers) =>
  request(`/api/progress?${query(filter, { order, numbers: numbers.filter(Number.isInteger).join(",") })}`);
const queueOf = (row) => (row.is_blind ? "?queue=random" : "");
export const getValues = (row) => request(`/api/values/${encodeURIComponent(row.split)}/${row.position}${queueOf(row)}`);
export const getContent = (row) => request(`/api/content/${encodeURIComponent(row.split)}/${row.position}${queueOf(row)}`);
export const getWhy = (row) => request(`/api/why/${encodeURIComponent(row.split)}/${row.position}`);
export const getOverview = (filter) => request(`/api/overview?${query(filter)}`);
export const imageAddress = (row) => `/image/${encodeURIComponent(row.split)}/${row.position}`;
export const originalAddress = (row, side = null) =>
  `/original/${encodeURIComponent(row.split)}/${row.position}${side === null ? "" : `?side=${side}`}`;
export const postDecisions = (decisions, queue) => post("/api/decisions", { decisions, queue });
export const postSample = (count) => post("/api/sample", { count });
export const postExport = () => post("/api/export", {});
