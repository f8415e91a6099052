package agentloop

// Spend counts what a model used that was asked on behalf of the agent and is not its
// own: the classifier of mode auto, the explainer. It counts against the budget of the
// turn that runs and is in its total; nil: the price is not known.
func (a *Agent) Spend(u Usage, price *Price) {
	a.mu.Lock()
	t := a.turn
	a.mu.Unlock()
	if t != nil {
		t.limits.spendAside(u, price)
	}
}
