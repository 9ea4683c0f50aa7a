import { setting } from "../firmware/config";
import { createFetcher } from "../firmware/fetch";
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
  execute(args, context) {
    const fetcher = createFetcher();
    const key = setting("searchKey");
    const provider = setting("searchProvider") || (key ? "tavily" : "duckduckgo");
    const base = setting("searchUrl").replace(/\/+$/, "");
    const most = setting("toolResultBytes");
    const query = args.query.trim();
    const page = (args.url || "").trim();
    let text = "";

    function ask(path: string, body: string | undefined, keys: string, maxString: number): Promise<any> {
      const headers: Record<string, string> = { Accept: "application/json" };
      if (body) headers["Content-Type"] = "application/json";
      if (key) headers.Authorization = "Bearer " + key;
      return fetcher.json({
        url: base + path,
        headers: headers,
        body: body,
        keys: keys,
        maxString: maxString,
        maxBytes: Math.min(2 * most, 4096),
        timeoutMs: 30000,
        session: context.session,
        what: "the search service",
        urlSetting: "searchUrl",
        keySetting: "searchKey",
      });
    }

    // Adds one result, a line each for what there is of it; `share` bytes at the most, but for the address.
    function add(title: any, address: any, excerpt: any, share: number): void {
      let lines = "";
      [title, address, excerpt].forEach(function (value, i) {
        const room = i === 0 ? share >> 2 : i === 1 ? most : Math.max(60, share - lines.length);
        const line = typeof value === "string" ? value.split("\n").join(" ").trim() : "";
        if (line) lines += (lines && "\n") + (line.length > room ? cutUtf8(line, room - 3) + "..." : line);
      });
      if (lines && text.length + lines.length + 2 <= most) text += (text && "\n\n") + lines;
    }

    function none(): string {
      return "Nothing was found for " + cutUtf8(query, 100) + ". ";
    }

    if (!query) return { isError: true, content: "The query is empty: give a few words." };
    if (page && provider !== "tavily")
      return { isError: true, content: "Reading a page takes Tavily (searchProvider): search without url instead." };
    if (page && !/^https*:\/\/./.test(page)) return { isError: true, content: "url must start with http:// or https://" };

    if (page)
      return ask(
        "/extract",
        '{"urls":[' + wireText(page) + '],"query":' + wireText(query) + ',"chunks_per_source":2}',
        "results,raw_content,failed_results,error",
        most
      ).then(function (json) {
        const found = json.results && json.results[0] && json.results[0].raw_content;
        const failed = json.failed_results && json.failed_results[0];
        if (found) return limitText(String(found), most);
        throw new Error("The page could not be read: " + ((failed && failed.error) || "there is no text on it"));
      });

    if (provider === "tavily")
      return ask(
        "/search",
        '{"query":' + wireText(query) + ',"max_results":' + RESULTS + ',"search_depth":"basic","include_answer":true}',
        "answer,results,title,url,content",
        (most / RESULTS) | 0
      ).then(function (json) {
        const results = json.results || [];
        const share = (most / (results.length + (json.answer ? 1 : 0))) | 0;
        add("", "", json.answer, share);
        for (const one of results) add(one.title, one.url, one.content, share);
        return text || none() + "Try other words.";
      });

    return ask(
      "/?q=" + fetcher.escape(query) + "&format=json&no_html=1&skip_disambig=1",
      undefined,
      "Heading,AbstractText,AbstractURL,Answer,RelatedTopics,Topics,FirstURL,Text",
      400
    ).then(function (json) {
      add("", "", json.Answer, 250);
      if (json.AbstractText) add(json.Heading, json.AbstractURL, json.AbstractText, 500);
      for (const topic of json.RelatedTopics || [])
        for (const one of topic.Topics || [topic]) add("", one.FirstURL, one.Text, 200);
      return text || none() + "DuckDuckGo only knows names and terms, as encyclopedias do: try one, or another word for it.";
    });
  },
};

export default webSearch;
