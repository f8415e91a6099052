package agentloop

import (
	"strings"
	"sync"

	"sandboxd/exec"
)

// outputFiles are the files of the whole outputs of one command.
type outputFiles struct {
	mu    sync.Mutex
	files []*ResultFile
}

func (o *outputFiles) open(r *ResultFiles, run *ToolRun) (exec.OutputFile, error) {
	f, err := r.Create(run.Session, run.learned()...)
	if err != nil {
		return nil, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.files = append(o.files, f)
	return f, nil
}

// close ends what is left of a command whose output was not described.
func (o *outputFiles) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, f := range o.files {
		_ = f.Close() // told by the stream, if there is one
	}
}

// learned are the texts of a call whose secrets are masked wherever they occur.
func (r *ToolRun) learned() []string {
	texts := []string{strings.Join(r.Call.Argv, " ")}
	for _, v := range r.Call.Args {
		if text, ok := v.(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// ResultFile makes the file of a result of this call that is too large for its
// answer. The error says why there is none; [ResultFile.Close] must be called.
func (r *ToolRun) ResultFile() (*ResultFile, error) {
	if r.d.o.Results == nil {
		return nil, ErrNoResultFile
	}
	return r.d.o.Results.Create(r.Session, r.learned()...)
}
