package agentloop

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"sandboxd/policy"
)

func TestTodoList(t *testing.T) {
	var l TodoList
	write := func(merge bool, todos ...any) error {
		_, err := l.Write(policy.Args{"todos": todos, "merge": merge})
		return err
	}
	item := func(content, status string) any { return map[string]any{"content": content, "status": status} }
	if err := write(false, item("read  the\ntest", "completed"), item("fix it", "in_progress"), "run it"); err != nil {
		t.Fatal(err)
	}
	want := "[x] read the test\n[>] fix it\n[ ] run it\n"
	if got := l.Text(); got != want {
		t.Errorf("list %q, want %q", got, want)
	}
	if err := write(true, item("fix it", "completed"), item("tidy", "pending")); err != nil {
		t.Fatal(err)
	}
	want = "[x] read the test\n[x] fix it\n[ ] run it\n[ ] tidy\n"
	if got := l.Text(); got != want {
		t.Errorf("merged %q, want %q", got, want)
	}
	many := make([]any, maxTodos+1)
	for i := range many {
		many[i] = strings.Repeat("x", i+1)
	}
	for name, err := range map[string]error{
		"unknown status": write(false, item("a", "done")), "no content": write(false, item(" ", "pending")), "number": write(false, 7.0),
		"twice": write(false, "a", "a"), "long": write(false, strings.Repeat("x", maxTodoText+1)), "many": write(false, many...),
		"status is no text": write(false, map[string]any{"content": "a", "status": 1.0}),
	} {
		if err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	for i := range 300_000 { // as many as fit into the arguments of a call
		many = append(many, fmt.Sprint(1_000_000+i))
	}
	start := time.Now()
	if err := write(false, many...); err == nil || time.Since(start) > 2*time.Second {
		t.Errorf("%d todos: %v after %v", len(many), err, time.Since(start))
	}
	if _, err := l.Write(policy.Args{"todos": "a"}); err == nil {
		t.Error("a text is taken for a list")
	}
	if got := l.Text(); got != want {
		t.Errorf("after errors %q, want %q", got, want)
	}
	if err := write(false); err != nil || l.Text() != "" {
		t.Errorf("cleared: %v %q", err, l.Text())
	}
}
