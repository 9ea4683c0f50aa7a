import { setting } from "../firmware/config";
import { askService, escapeQuery, type ServiceRequest } from "../firmware/fetch";
import { cutUtf8, limitText, wireText } from "../firmware/text";
import type { Tool } from "../firmware/types";

/** Results that are asked for: with an answer they share the bytes of one tool result. */
const RESULTS = 3;

/**
 * Tavily: POST /search and /extract with a Bearer key, https://docs.tavily.com/documentation/api-reference/endpoint/search
 * and …/extract. `include_answer` has Tavily sum up what it found; of a page it picks the passages that fit the query.
 *
 * DuckDuckGo, without a key: the Instant Answer API, https://api.duckduckgo.com/?q=…&format=json. It has what encyclopedias
 * say of a name or a term, and related ones; it is no web search. Its result pages for people are none for a program either:
 * they refuse what they take for one.
 */
const webSearch: Tool = {
  name: "web_search",
  description:
    "Search the web. Use it for news and facts that no other tool knows; with url it reads that page and picks what " +
    "fits the query. Returns titles, addresses and excerpts.",
  parameters: {
    type: "object",
    properties: {
      query: { type: "string", description: "A few words, as for a search engine" },
      url: { type: "string", description: "Address of a page to be read" },
    },
    required: ["query"],
  },
  needs: "searchUrl",
  timeoutMs: 40000,
  tier: "do",
  execute(args, context) {
    const key = setting("searchKey");
    const isTavily = (setting("searchProvider") || (key ? "tavily" : "duckduckgo")) === "tavily";
    const most = setting("toolResultBytes");
    const query = args.query.trim();
    const page = (args.url || "").trim();
    /** Bytes for one result. */
    const share = (most / (RESULTS + 1)) | 0;
    let text = "";
    let title = "";
    let address = "";
    let excerpt = "";

    if (!query) return { isError: true, content: "The query is empty: give a few words." };
    if (page && !isTavily) return { isError: true, content: "Reading a page takes Tavily (searchProvider): search without url instead." };
    if (page && !/^https*:\/\/./.test(page)) return { isError: true, content: "url must start with http:// or https://" };

    const request: ServiceRequest = {
      url: setting("searchUrl").replace(/\/+$/, "") + (page ? "/extract" : "/search"),
      headers: { Accept: "application/json", "Content-Type": "application/json" },
      timeoutMs: 30000,
      session: context.session,
      what: "The search service",
      urlSetting: "searchUrl",
      keySetting: "searchKey",
      keys: "",
      maxString: 2 * share,
      // A result has a line each for what there is of it. The end of an object is the end of a result.
      take: function (name, value) {
        const line = String(value).split("\n").join(" ").trim();
        // DuckDuckGo's topics stand inside of what it knows itself.
        if (name === "FirstURL" && excerpt) request.take("", undefined);
        if (name === "title" || name === "Heading") title = cutUtf8(line, 80);
        else if (name === "url" || name === "FirstURL" || name === "AbstractURL") address = line;
        else if (name === "answer" || name === "Answer") text = line;
        else if (name) excerpt = line;
        else {
          let lines = title + (title && address && "\n") + address;
          const room = (title && !isTavily ? 2 * share : share) - lines.length;
          if (excerpt.length > room) excerpt = cutUtf8(excerpt, Math.max(60, room - 3)) + "...";
          if (excerpt) lines += (lines && "\n") + excerpt;
          title = address = excerpt = "";
          if (text.length + lines.length + 2 > most) return true;
          if (lines) text += (text && "\n\n") + lines;
        }
        return false;
      },
      end: function () {
        const advice = isTavily ? "Try other words." : "DuckDuckGo only knows names and terms, as encyclopedias do: try one, or another word for it.";
        return text || "Nothing was found for " + cutUtf8(query, 100) + ". " + advice;
      },
    };
    if (key && isTavily) request.headers!.Authorization = "Bearer " + key;

    if (page) {
      request.body = '{"urls":[' + wireText(page) + '],"query":' + wireText(query) + ',"chunks_per_source":2}';
      request.keys = "results,raw_content,failed_results,error";
      request.maxString = most;
      request.take = function (name, value) {
        if (name === "raw_content") text = String(value);
        else if (name === "error") excerpt = value;
        return !!text;
      };
      request.end = function () {
        if (text) return limitText(text, most);
        return { isError: true, content: "The page could not be read: " + (excerpt || "there is no text on it") };
      };
    } else if (isTavily) {
      request.body = '{"query":' + wireText(query) + ',"max_results":' + RESULTS + ',"search_depth":"basic","include_answer":true}';
      request.keys = "answer,results,title,url,content";
    } else {
      request.url = setting("searchUrl").replace(/\/+$/, "") + "/?q=" + escapeQuery(query) + "&format=json&no_html=1&skip_disambig=1";
      request.keys = "Heading,AbstractText,AbstractURL,Answer,RelatedTopics,Topics,FirstURL,Text";
    }
    return askService(request);
  },
};

export default webSearch;
