// One session of the official TypeScript client with a server over stdio: `node session.mjs ERA COMMAND ARG…`.
// Prints one JSON object. What the client finds wrong with an answer (shape, output schema) ends it with an exit code of 1.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const [era, command, ...args] = process.argv.slice(2);
const client = new Client(
  { name: "session", version: "1.0.0" },
  { versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" } },
);
await client.connect(new StdioClientTransport({ command, args, env: { ...process.env }, stderr: "inherit" }));

const call = async (name, given) => {
  const { structuredContent, isError, content } = await client.callTool({ name, arguments: given });
  return isError ? { error: content[0].text } : structuredContent;
};
const shelf = { conversation_id: "聊天" };
const said = (content) => [{ role: "user", content }];
const seen = {
  tools: (await client.listTools()).tools.map((tool) => tool.name),
  instructions: client.getInstructions(),
  added: await call("add_short_term_memory", { messages: said("我养了一只叫团子的猫"), ...shelf }),
  found: await call("search_short_term_memories", { recentMessages: said("团子今天怎么样？"), ...shelf }),
  set: await call("add_long_term_memory", {
    name: "团子",
    prompt: "团子是用户的猫",
    trigger: "match_keys(context.messages, ['团子'], 'user')",
    ...shelf,
  }),
  fired: await call("search_long_term_memories", { messages: said("团子今天怎么样？"), ...shelf }),
  refused: await call("add_short_term_memory", { message: "我" }),
  missing: await call("get_memory_context", { name: "没有的" }),
};
await client.close();
console.log(JSON.stringify(seen));
