package exec

import (
	"reflect"
	"testing"
)

// fillValue gives every exported field of v a value of its own, so that a field
// that is forgotten in the format is missed.
func fillValue(v reflect.Value, next *int) {
	*next++
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillValue(v.Field(i), next)
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillValue(v.Index(i), next)
		}
	case reflect.String:
		v.SetString(string(rune('a'+*next%26)) + "\n\x00")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int:
		v.SetInt(int64(*next) * 1000)
	}
}

func TestKeptHostIsTheSame(t *testing.T) {
	var full Host
	fillValue(reflect.ValueOf(&full).Elem(), new(int))
	for name, h := range map[string]Host{"every field": full, "none": {}, "this host": ProbeHost()} {
		h.landlock.ABI, h.landlock.Errata = h.LandlockABI, h.LandlockErrata
		h.landlock.Err = nil
		text := h.encode()
		got, ok := decodeHost(text)
		if !ok || !reflect.DeepEqual(got, h) {
			t.Errorf("%s: ok %v\ngot  %+v\nwant %+v", name, ok, got, h)
		}
		for n := range text {
			if _, ok := decodeHost(text[:n]); ok {
				t.Errorf("%s: the first %d of %d bytes were believed", name, n, len(text))
			}
		}
		if _, ok := decodeHost(append(text, 0)); ok {
			t.Errorf("%s: more than there is was believed", name)
		}
	}
}

func FuzzKeptHost(f *testing.F) {
	f.Add(ProbeHost().encode())
	f.Add([]byte(hostFormat))
	f.Fuzz(func(t *testing.T, text []byte) {
		h, ok := decodeHost(text)
		if !ok {
			return
		}
		if again, ok := decodeHost(h.encode()); !ok || !reflect.DeepEqual(again, h) {
			t.Errorf("%+v became %+v", h, again)
		}
	})
}
