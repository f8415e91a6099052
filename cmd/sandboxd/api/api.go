// Package api is the HTTP face of the daemon: wire types, server and client.
//
//	l, err := api.Listen(api.ListenOptions{Path: "/run/sandboxd/sandboxd.sock"})
//	server, err := api.NewServer(api.Options{Sessions: sessions, Dispatcher: dispatcher, ...})
//	go server.Serve(l)
//
//	c := api.Dial("/run/sandboxd/sandboxd.sock")
//	health, err := c.Health(ctx)
//
// A peer is known by the kernel (SO_PEERCRED at accept), not by what it says.
// Peers that run inside a confined command, and requests such as a web page can
// make, are refused before any route is looked up. What each route takes and gives
// is in openapi.json, which the daemon serves and a test compares with the routes.
//
// # Limits
//
// Whoever runs as the same uid outside of a run is the same person here. A
// connection that was opened outside and handed to a run on purpose (--pass-fd)
// counts as its opener's.
package api

// Version is the version of the wire: routes, objects and frames. It changes when
// a client and a daemon of two versions would misunderstand each other; fields that
// are only added do not change it.
const Version = "1"

// Header names. Both sides send Header with [Version], and BuildHeader with the
// version of the program.
const (
	Header      = "Sandboxd-Api"
	BuildHeader = "Sandboxd-Version"
)

// Bounds of what is read from a client.
const (
	// maxHeaderBytes bounds the request line with all headers.
	maxHeaderBytes = 32 << 10
	// maxBodyBytes bounds a JSON body. An environment and an argument list together
	// fit: execve(2) takes a quarter of the stack limit, 2 MiB, and each byte may
	// take two in base64 or as an escape.
	maxBodyBytes = 4 << 20
)
