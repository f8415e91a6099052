package agentloop

import "sandboxd/policy"

// sessionModels are models that are asked about the calls of a session.
type sessionModels struct {
	classifier policy.Classifier
	explainer  Explainer
}

// SetModels gives the session and its sub-agents the classifier of mode auto and an
// explainer for questions; nil takes them away. They hold for calls that have not
// started. Nothing changes when that fails.
func (s *Session) SetModels(c policy.Classifier, e Explainer) error {
	if err := s.setModels(c, e); err != nil {
		return err
	}
	s.tellChildren()
	return nil
}

func (s *Session) setModels(c policy.Classifier, e Explainer) error {
	s.installing.Lock()
	defer s.installing.Unlock()
	s.mu.Lock()
	before, tools := s.models, s.tools
	s.models = sessionModels{c, e}
	s.mu.Unlock()
	err := s.put(s.inForce(), tools)
	if err != nil {
		s.mu.Lock()
		s.models = before
		s.mu.Unlock()
	}
	return err
}

// modelsNow are those of the lead: a sub-agent brings none.
func (s *Session) modelsNow() sessionModels {
	s = s.lead()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.models
}

func (s *Session) explainerNow() Explainer { return s.modelsNow().explainer }
