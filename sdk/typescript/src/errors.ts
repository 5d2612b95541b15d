/** What can go wrong with a request, by who can mend it. */

/** A request that did not succeed. `status` is of HTTP, 0 without an answer. */
export class TielineError extends Error {
  constructor(readonly detail: string, readonly status = 0, message = detail) {
    super(message);
    this.name = new.target.name;
  }
}

/** The node understood the request and does not do it; nothing was done. `reason` is a stable word, for commands. */
export class Refused extends TielineError {
  constructor(detail: string, status = 0, readonly reason = "") {
    super(detail, status, reason === "" ? detail : `${reason}: ${detail}`);
  }
}

/** The caller is not authenticated, or does not have the right. */
export class Denied extends TielineError {}

/** The node did not take the request: no connection, or it is busy or stopping. Nothing was done. */
export class Unreachable extends TielineError {}

/** The request was sent, and its outcome is not known: it may have been carried out. Look before you repeat it. */
export class Unknown extends TielineError {}

/** The error of an answer. */
export function ofStatus(status: number, detail: string): TielineError {
  if (status === 401 || status === 403) {
    return new Denied(detail, status);
  }
  return status === 408 || status === 429 || status >= 500 ? new Unreachable(detail, status) : new Refused(detail, status);
}
