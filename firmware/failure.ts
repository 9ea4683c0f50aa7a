import { setting } from "./config";
import { fromJson, limitText, toJson } from "./text";

/** What a request ended with, if not with an answer. */
export interface Failure {
  /** For the person: what failed and which setting to look at. */
  message: string;
  /** True where the same request may well succeed a little later. */
  retry: boolean;
  /** Milliseconds that the server asked to wait; 0 if it did not. */
  waitMs: number;
  /** The server does not take the request, and would not take it again. */
  refused?: boolean;
}

/** What puts failures into words; it exists while one is told. */
export interface FailureWords {
  /**
   * For an HTTP status and body: words that name the setting to look at. The key never appears: a server that repeats
   * it or a part of it has that taken out. `retryAfter` and `date` are the headers of those names, "" without: a time in
   * the first counts from the second, since a board's own clock may be wrong by years. RFC 9110, 10.2.3. What our gateway
   * says of itself names the setting, which may be one of its own: nothing is added to that.
   */
  http(status: number, body: string, retryAfter: string, date: string): Failure;
  /** For what went wrong below HTTP. */
  broken(reason: string): Failure;
  /** For a reply that ended before it was over. */
  cut(): Failure;
  /** For too little memory; `free` in variables. */
  memory(free: number): Failure;
  /** For a page instead of a reply. */
  page(): Failure;
  /** For a reply that is no JSON, or too long to be read whole. */
  unread(tooLong: boolean): Failure;
}

export function failureWords(): FailureWords {
  // The server's own words out of an error body: JSON of the usual shapes, or a short text. A page is not quoted.
  function serverMessage(body: string): string {
    body = body.trim();
    if (!body || body.charAt(0) === "<") return "";
    try {
      const json = fromJson(body);
      const error = json.error || json;
      return String(error.message || json.message || json.detail || (typeof error === "string" ? error : body));
    } catch (e) {
      return body;
    }
  }

  function http(status: number, body: string, retryAfter: string, date: string): Failure {
    const key = setting("apiKey");
    const model = setting("model") || "none is set";
    let said = serverMessage(body);
    // A body that was cut may end in a part of the key.
    if (key && body.length > setting("sseLineBytes")) said = said.substr(0, said.length - 2 * key.length);
    if (key)
      for (const secret of [key, toJson(key).substr(1, toJson(key).length - 2)])
        if (said.length >= secret.length) said = said.split(secret).join("***");
    // Some servers repeat a part of the key.
    said = limitText(said.replace(/sk-[^ ,"']+/g, "***"), 300);
    let hint = "";
    if (status === 401 || status === 403) hint = "the server refused the key: check apiKey";
    else if (status === 404) hint = "check the URL (baseUrl " + setting("baseUrl") + ") and the model (" + model + ")";
    else if (status === 413) hint = "the request is too large: lower inlineBytes, or historyBytes";
    else if (status === 429) hint = "the server is asked too often or the quota is used up";
    else if (status >= 500) hint = "the server has a problem";
    // OpenAI: "Error while downloading http://...", Anthropic: "Unable to download the file", vLLM names the connection.
    else if (setting("multimodal") && setting("uploadUrl") && !setting("mediaInline") && /download|file|[uU][rR][lL]|connect to host/.test(said))
      hint = "the model's server may not reach the file server: set_config({mediaInline:true}) sends files within the request; or check downloadUrl";
    else if (said.split("max_completion_tokens").length > 1) hint = 'set_config({tokensField:"max_completion_tokens"})';
    else if (said.split("reasoning_content").length > 1)
      hint = "set_config({echoReasoning:" + !setting("echoReasoning") + "}), then clear_history";
    else if (status >= 300 && status < 400) hint = "the server sends us elsewhere: check the URL (baseUrl)";
    else if (said.split("model").length > 1) hint = "check the model (" + model + ")";
    let wait = Number(retryAfter);
    if (retryAfter && isNaN(wait)) wait = (Date.parse(retryAfter) - (Date.parse(date) || Date.now())) / 1000;
    return {
      message: "the model server answered " + (status || "with an error") + (said ? ": " + said : "") + (hint && !said.startsWith("gateway: ") ? " (" + hint + ")" : ""),
      retry: status === 408 || status === 429 || status >= 500,
      // Nobody means more than a day; what is negative, odd or larger is no answer to "when again".
      waitMs: wait > 0 && wait <= 86400 ? Math.ceil(wait * 1000) : 0,
      refused: [401, 403, 404, 408, 429].indexOf(status) < 0,
    };
  }

  function broken(reason: string): Failure {
    const timeout = reason.startsWith("timeout");
    return {
      message: timeout
        ? reason + ". Is the model loading, or the server overloaded?"
        : reason.startsWith("a file") ? reason
        : "no answer from " + setting("baseUrl") + " (" + reason + "): check Wi-Fi, the URL (baseUrl), and that the server runs",
      retry: !timeout,
      waitMs: 0,
    };
  }

  function final(message: string): Failure {
    return { message: message, retry: false, waitMs: 0 };
  }

  return {
    http: http,
    broken: broken,
    cut: function () {
      return { message: "the answer was cut off: the connection ended before the reply did", retry: true, waitMs: 0 };
    },
    memory: function (free) {
      return final("not enough memory for a request: " + free + " variables are free. Free some, or lower historyBytes and restart");
    },
    page: function () {
      return final(
        "the server sent an HTML page, no model's answer: check the URL (baseUrl " + setting("baseUrl") +
          "); a Wi-Fi login page answers like this, too"
      );
    },
    unread: function (tooLong) {
      return final(
        tooLong
          ? "the reply is not a stream and longer than sseLineBytes (" + setting("sseLineBytes") + "): raise it"
          : "the server's reply is no chat completion: check the URL (baseUrl)"
      );
    },
  };
}
