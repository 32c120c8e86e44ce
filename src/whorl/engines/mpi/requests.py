"""Requests whose other side may be lost. With fault-tolerant MPI an operation with a rank that has died ends with an
error; without it the job has ended before anybody could ask."""

from __future__ import annotations

import contextlib
from typing import Any

from mpi4py import MPI


def _classes() -> frozenset[int]:
    names = ("ERR_PROC_FAILED", "ERR_PROC_FAILED_PENDING", "ERR_REVOKED")
    return frozenset(getattr(MPI, name) for name in names if getattr(MPI, name, MPI.UNDEFINED) != MPI.UNDEFINED)


LOST = _classes()


class PeerLost(Exception):
    """The rank on the other side is gone."""


def done(request: MPI.Request) -> bool:
    """Whether a request is complete; ``PeerLost`` when it never will be."""
    try:
        return request.Test()
    except MPI.Exception as error:
        if error.Get_error_class() in LOST:
            raise PeerLost from error
        raise


def over(request: MPI.Request) -> bool:
    """Whether nothing more is to be expected of a request: what nobody will take counts as taken."""
    try:
        return done(request)
    except PeerLost:
        return True


def send(comm: MPI.Intracomm, buffer: Any, rank: int, tag: int) -> MPI.Request:
    """As ``Isend``; to a rank that is gone it is nothing."""
    try:
        return comm.Isend(buffer, rank, tag)
    except MPI.Exception as error:
        if error.Get_error_class() in LOST:
            return MPI.REQUEST_NULL
        raise


def receive(comm: MPI.Intracomm, buffer: Any, rank: int, tag: int) -> MPI.Request:
    """As ``Irecv``; from a rank that is gone nothing comes: ``PeerLost``."""
    try:
        return comm.Irecv(buffer, rank, tag)
    except MPI.Exception as error:
        if error.Get_error_class() in LOST:
            raise PeerLost from error
        raise


def cancel(request: MPI.Request) -> None:
    """Take back a receive that nobody will answer."""
    if request != MPI.REQUEST_NULL:
        with contextlib.suppress(MPI.Exception):
            request.Cancel()
            request.Wait()


def acknowledge(comm: MPI.Intracomm, error: MPI.Exception) -> None:
    """Go on with messages from anybody after one who could have sent some was lost; other errors are raised."""
    if error.Get_error_class() not in LOST:
        raise error
    comm.Ack_failed(comm.Get_failed().size)
