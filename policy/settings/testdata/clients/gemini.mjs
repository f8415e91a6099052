// Asks Gemini CLI's own policy engine about commands. Its package has no command
// for that, but exports the engine.
//
// node gemini.mjs PACKAGE_DIR <{"files":[...],"commands":[...]}
// prints {"FILE":{"errors":[...],"decisions":[...]}}: "allow", "deny", "ask_user".
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

// The package writes notes to standard output, which is for the answer alone.
const print = process.stdout.write.bind(process.stdout);
process.stdout.write = process.stderr.write.bind(process.stderr);

const bundle = path.join(process.argv[2], "bundle");
let core;
for (const name of fs.readdirSync(bundle)) {
  if (!/^core-.*\.js$/.test(name)) continue;
  const m = await import(pathToFileURL(path.join(bundle, name)));
  if (m.PolicyEngine && m.loadPoliciesFromToml) core = m;
}
if (!core) throw new Error("the package exports no policy engine");
await core.initializeShellParsers?.();

const input = JSON.parse(fs.readFileSync(0, "utf8"));
const out = {};
for (const file of input.files) {
  const loaded = await core.loadPoliciesFromToml([file], () => 2);
  const engine = new core.PolicyEngine({
    rules: loaded.rules, checkers: loaded.checkers, approvalMode: "default", defaultDecision: "ask_user",
  });
  const decisions = [];
  for (const command of input.commands) {
    const got = await engine.check({ name: "run_shell_command", args: { command } });
    decisions.push(got.rule || got.decision !== "ask_user" ? got.decision : "");
  }
  out[file] = { errors: loaded.errors.map((e) => `${e.message}: ${e.details ?? ""}`), decisions };
}
print(JSON.stringify(out), () => process.exit(0));
