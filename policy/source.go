package policy

import "strconv"

// String is one phrase for people: the level, then file and line where known.
func (s Source) String() string {
	text := s.Kind.String() + " policy"
	switch {
	case s.File != "" && s.Line > 0:
		return text + " " + s.File + ":" + strconv.Itoa(s.Line)
	case s.File != "":
		return text + " " + s.File
	}
	return text
}
