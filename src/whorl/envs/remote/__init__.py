"""Environments behind a socket: a server that holds copies of one, and clients that step them.

    messages    the headers, as typed structs with limits
    layout      the arrays that follow a header
    keys        who may connect
    address     where a server is
    copies      the server's environments
    sessions    who holds which copies, and what was last answered
    server      the socket and the loop
    connection  the client's socket: asks until it is answered
    served      a client's copies, and what brings them back after a restart of the server
    env, form   served copies as a Gymnasium environment, and as a vector form
    native      the sources of servers and clients in C++ and Fortran

docs/reference/wire-protocol.md tells everything that another implementation needs.
"""
