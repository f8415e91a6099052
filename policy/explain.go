package policy

// Explanation is the heuristic reading of a call, for the person who is asked.
// It never changes a decision.
type Explanation struct {
	// RiskLevel is LOW, MEDIUM or HIGH.
	RiskLevel string `json:"risk_level"`
	// Explanation is what the call does, Reasoning why it has this level, Risk
	// what could go wrong.
	Explanation string `json:"explanation"`
	Reasoning   string `json:"reasoning"`
	Risk        string `json:"risk"`
}

func (r *run) explain() Explanation { return Explanation{} }
