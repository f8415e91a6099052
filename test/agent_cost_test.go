package test

import (
	"math"
	"os"
	"testing"
)

// What the classifier of mode auto uses counts at the price of its own model.
func TestEachModelIsCountedAtItsOwnPrice(t *testing.T) {
	d := startDaemon(t, os.Getuid())
	file := d.file(d.Home+"/.config/sandboxd/policy.toml", `
[agent]
provider = "scripted"
model = "lead"
classifier = "judge"
[agent.prices.lead]
input = 1000.0
output = 0.0
[agent.prices.judge]
input = 100000.0
output = 0.0
`)
	d.must(os.Chmod(file, 0o600))
	session := d.chat(`
others:
  - match: You judge how safe
    steps: [{repeat: -1, say: '{"score": 0.95, "reason": "harmless"}', usage: {input: 20}}]
steps:
  - {calls: [{tool: run_bash, args: {command: "python3 -c 'open(\"made\", \"w\")'"}}], usage: {input: 1000}}
  - {say: over, usage: {input: 500}}
`, map[string]any{"mode": "auto"})
	d.object("POST", session+"/messages", `{"text":"go"}`, 202)
	o := d.said(session)
	end, _ := o["end"].(map[string]any)
	cost, _ := end["cost_usd"].(float64)
	const want = 1.0 + 0.5 + 2.0 // US dollars: of 1,000 tokens, of 500, and of 20 of the classifier
	if !exists(d.Work+"/made") || math.Abs(cost-want) > 1e-6 {
		t.Errorf("made %v, cost %v, want %v: %v", exists(d.Work+"/made"), cost, want, end)
	}
}
