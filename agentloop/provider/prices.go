package provider

import (
	"strings"

	"sandboxd/agentloop"
)

// listPrice is the price of requests of at most UpTo tokens; zero: of all.
type listPrice struct {
	agentloop.Price
	UpTo int64
}

// anthropicPrices are those of platform.claude.com/docs/en/about-claude/pricing and
// of the pages of the models there (October 2026), with cache writes for five
// minutes, which is what is asked for. Where the pages differ the dearer counts.
var anthropicPrices = map[string]listPrice{
	"claude-fable-5-1":  {Price: agentloop.Price{Input: 10, Output: 50, CacheRead: 0.25, CacheWrite: 12.50}},
	"claude-fable-5":    {Price: agentloop.Price{Input: 10, Output: 50, CacheRead: 1, CacheWrite: 12.50}},
	"claude-opus-5-5":   {Price: agentloop.Price{Input: 4, Output: 20, CacheRead: 0.20, CacheWrite: 5}},
	"claude-opus-5":     {Price: agentloop.Price{Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25}},
	"claude-opus-4-8":   {Price: agentloop.Price{Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25}},
	"claude-opus-4-7":   {Price: agentloop.Price{Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25}},
	"claude-opus-4-6":   {Price: agentloop.Price{Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25}},
	"claude-opus-4-5":   {Price: agentloop.Price{Input: 5, Output: 25, CacheRead: 0.50, CacheWrite: 6.25}},
	"claude-sonnet-5-5": {Price: agentloop.Price{Input: 2, Output: 10, CacheRead: 0.20, CacheWrite: 2.50}},
	"claude-sonnet-5":   {Price: agentloop.Price{Input: 2, Output: 10, CacheRead: 0.20, CacheWrite: 2.50}},
	"claude-sonnet-4-6": {Price: agentloop.Price{Input: 3, Output: 15, CacheRead: 0.30, CacheWrite: 3.75}},
	"claude-sonnet-4-5": {Price: agentloop.Price{Input: 3, Output: 15, CacheRead: 0.30, CacheWrite: 3.75}},
	"claude-haiku-5-5":  {Price: agentloop.Price{Input: 0.10, Output: 0.50, CacheRead: 0.01, CacheWrite: 0.125}, UpTo: 100_000},
	"claude-haiku-4-5":  {Price: agentloop.Price{Input: 1, Output: 5, CacheRead: 0.10, CacheWrite: 1.25}},
}

// openAIPrices are the standard prices of developers.openai.com/api/docs/pricing
// as of September 2026, as docs.litellm.ai and the release notes of others give
// them; longer requests cost more.
var openAIPrices = map[string]listPrice{
	"gpt-6.1-sol": {Price: agentloop.Price{Input: 2, Output: 10, CacheRead: 0.10, CacheWrite: 2.50}, UpTo: 272_000},
	"gpt-6-sol":   {Price: agentloop.Price{Input: 2, Output: 10, CacheRead: 0.20, CacheWrite: 2.50}, UpTo: 272_000},
	"gpt-6-luna":  {Price: agentloop.Price{Input: 0.10, Output: 0.50, CacheRead: 0.01, CacheWrite: 0.125}, UpTo: 272_000},
}

// PriceOf is the price of a model: that of the configuration, else the list price
// where requests go to the provider's own address and cannot grow beyond what the
// price is for. cfg is what [New] returned. A script costs nothing.
func PriceOf(cfg agentloop.AgentConfig, model string) (agentloop.Price, bool) {
	if p, known := cfg.Prices[model]; known {
		return p, true
	}
	var list map[string]listPrice
	switch {
	case cfg.Provider == ScriptedName:
		return agentloop.Price{}, true
	case cfg.Provider == Anthropic && cfg.BaseURL == anthropicBase:
		list = anthropicPrices
	case (cfg.Provider == OpenAI || cfg.Provider == OpenAIResponses) && cfg.BaseURL == openAIBase:
		list = openAIPrices
	}
	p, known := list[undated(model)]
	if known && p.UpTo > 0 && cfg.Limits.OrDefault().HardLimit > p.UpTo {
		return agentloop.Price{}, false
	}
	return p.Price, known
}

// undated is a model's name without the date of a snapshot, which costs the same:
// claude-haiku-4-5-20251001, gpt-5-2025-08-07.
func undated(model string) string {
	for _, form := range []string{"-00000000", "-0000-00-00"} {
		n := len(model) - len(form)
		if n <= 0 {
			continue
		}
		digits := strings.Map(func(r rune) rune {
			if r >= '0' && r <= '9' {
				return '0'
			}
			return r
		}, model[n:])
		if digits == form {
			return model[:n]
		}
	}
	return model
}
