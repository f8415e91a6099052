package agentloop

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"sandboxd/policy"
)

// EventTurnTodos tells that the list of an agent changed; its data is TodoState.
const EventTurnTodos = "turn.todos"

// States of a [Todo].
const (
	TodoPending    = "pending"
	TodoInProgress = "in_progress"
	TodoCompleted  = "completed"
)

const (
	maxTodos    = 50
	maxTodoText = 500 // bytes of one
)

// Todo is one thing that an agent means to do.
type Todo struct {
	Content string `json:"content"`
	Status  string `json:"status"`
}

// TodoState is a list as it is shown.
type TodoState struct {
	Todos []Todo `json:"todos"`
}

// TodoList is what an agent means to do, in its own words. It belongs to one
// agent, survives compactions, and is safe for concurrent use. The zero list is
// empty.
type TodoList struct {
	mu   sync.Mutex
	list []Todo
}

// List returns a copy.
func (l *TodoList) List() []Todo {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.list)
}

// Write replaces the list by that of the arguments of todo_write, or with merge
// changes those items that it names and adds the others. Nothing changes on an
// error.
func (l *TodoList) Write(args policy.Args) ([]Todo, error) {
	given, err := todosOf(args)
	if err != nil {
		return nil, err
	}
	merge, _ := args["merge"].(bool)
	l.mu.Lock()
	defer l.mu.Unlock()
	list := given
	if merge {
		list = slices.Clone(l.list)
		for _, t := range given {
			i := slices.IndexFunc(list, func(have Todo) bool { return have.Content == t.Content })
			if i < 0 {
				list = append(list, t)
			} else {
				list[i] = t
			}
		}
	}
	if len(list) > maxTodos {
		return nil, fmt.Errorf("%d todos: at most %d are kept", len(list), maxTodos)
	}
	l.list = list
	return slices.Clone(list), nil
}

// Text is the list with a line for each item, or empty.
func (l *TodoList) Text() string {
	var b strings.Builder
	for _, t := range l.List() {
		mark := map[string]string{TodoPending: " ", TodoInProgress: ">", TodoCompleted: "x"}[t.Status]
		fmt.Fprintf(&b, "[%s] %s\n", mark, t.Content)
	}
	return b.String()
}

// todosOf reads the argument todos: objects with content and status, or texts.
func todosOf(args policy.Args) ([]Todo, error) {
	items, ok := args["todos"].([]any)
	if !ok {
		return nil, errors.New("argument todos: want a list of objects with content and status")
	}
	if len(items) > maxTodos { // first: each is compared with all before it
		return nil, fmt.Errorf("%d todos: at most %d are kept", len(items), maxTodos)
	}
	list := []Todo{}
	for i, item := range items {
		t := Todo{Status: TodoPending}
		switch v := item.(type) {
		case string:
			t.Content = v
		case map[string]any:
			t.Content, _ = v["content"].(string)
			if s, given := v["status"]; given {
				t.Status, _ = s.(string)
			}
		}
		t.Content = strings.Join(strings.Fields(t.Content), " ")
		switch t.Status {
		case TodoPending, TodoInProgress, TodoCompleted:
		default:
			return nil, fmt.Errorf("todo %d: status must be %s, %s or %s", i+1, TodoPending, TodoInProgress, TodoCompleted)
		}
		if t.Content == "" || len(t.Content) > maxTodoText {
			return nil, fmt.Errorf("todo %d: its content is missing, or longer than %d bytes", i+1, maxTodoText)
		}
		if slices.ContainsFunc(list, func(have Todo) bool { return have.Content == t.Content }) {
			return nil, fmt.Errorf("todo %d stands twice: %s", i+1, t.Content)
		}
		list = append(list, t)
	}
	return list, nil
}
