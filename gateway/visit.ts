/** A request that is logged: whose it is, and what became of it. */
import type { FastifyReply, FastifyRequest } from "fastify";
import type { Clock } from "./clock";
import type { TokenEntry } from "./tokens";

export interface Visit {
  /** The address that it comes from. */
  ip: string;
  startedAt: number;
  /** Undefined where nobody knows, or nobody asks. */
  token?: TokenEntry;
  /** `outcome` is `done`, or what went wrong, in a word; `problem` the same in words. The rest goes into the log. */
  account: { outcome: string; problem?: string };
  /** Something goes on that the log has to wait for. */
  isUnderWay: boolean;
  /** Writes the line of the log, once the board has its answer (or has gone) and nothing is under way. */
  log(): void;
}

declare module "fastify" {
  interface FastifyRequest {
    /** Undefined for what is not logged. */
    visit?: Visit;
  }
}

/** Follows a request to its end, and calls `tell` then. */
export function followVisit(
  request: FastifyRequest,
  reply: FastifyReply,
  clock: Clock,
  tell: (visit: Visit) => void,
): Visit {
  let isAnswered = false;
  let isLogged = false;
  const visit: Visit = {
    ip: request.ip,
    startedAt: clock.now(),
    account: { outcome: "" },
    isUnderWay: false,
    log() {
      if (isLogged || !isAnswered || visit.isUnderWay) return;
      isLogged = true;
      tell(visit);
    },
  };
  request.visit = visit;
  for (const event of ["finish", "close"]) {
    reply.raw.once(event, () => {
      isAnswered = true;
      visit.log();
    });
  }
  return visit;
}
