"""A plan as plain values and back, so that it travels as messages do: to ranks of MPI, to stations of Ray."""

from __future__ import annotations

from typing import Any

from whorl.engines.contract import BoardSpec, ChannelSpec, GroupSpec, Plan, RoleId, RoleSpec, TeamSpec
from whorl.types import Field, Layout


def plan_to_plain(plan: Plan) -> dict[str, Any]:
    """Only lists, dictionaries, texts and numbers."""
    return {
        "roles": [
            {
                "id": _id(role.id),
                "entry": role.entry,
                "endpoints": {name: list(to) if isinstance(to, tuple) else to for name, to in role.endpoints.items()},
                "on_loss": role.on_loss,
                "notify": _ids(role.notify),
                "torch": role.torch,
                "parked": role.parked,
                "beside": None if role.beside is None else _id(role.beside),
            }
            for role in plan.roles
        ],
        "job": plan.job,
        "channels": [
            [spec.name, _layout(spec.layout), spec.slots, _id(spec.writer), _ids(spec.readers), spec.one_sided]
            for spec in plan.channels
        ],
        "boards": [[spec.name, _layout(spec.layout), _id(spec.writer), _ids(spec.readers)] for spec in plan.boards],
        "groups": [[spec.name, _layout(spec.layout), _ids(spec.members), spec.buffers] for spec in plan.groups],
        "teams": [[spec.name, _ids(spec.members)] for spec in plan.teams],
    }


def plan_from_plain(plain: dict[str, Any]) -> Plan:
    """The plan again."""
    return Plan(
        roles=tuple(
            RoleSpec(
                RoleId(*role["id"]),
                role["entry"],
                {name: tuple(to) if isinstance(to, list) else to for name, to in role["endpoints"].items()},
                role["on_loss"],
                _back(role["notify"]),
                role["torch"],
                role["parked"],
                None if role["beside"] is None else RoleId(*role["beside"]),
            )
            for role in plain["roles"]
        ),
        job=plain["job"],
        channels=tuple(
            ChannelSpec(name, _layout_back(layout), slots, RoleId(*writer), _back(readers), one_sided)
            for name, layout, slots, writer, readers, one_sided in plain["channels"]
        ),
        boards=tuple(
            BoardSpec(name, _layout_back(layout), RoleId(*writer), _back(readers))
            for name, layout, writer, readers in plain["boards"]
        ),
        groups=tuple(
            GroupSpec(name, _layout_back(layout), _back(members), buffers)
            for name, layout, members, buffers in plain["groups"]
        ),
        teams=tuple(TeamSpec(name, _back(members)) for name, members in plain["teams"]),
    )


def _id(role: RoleId) -> list[Any]:
    return [role.kind, role.index]


def _ids(roles: tuple[RoleId, ...]) -> list[Any]:
    return [_id(role) for role in roles]


def _back(roles: list[Any]) -> tuple[RoleId, ...]:
    return tuple(RoleId(*role) for role in roles)


def _layout(layout: Layout) -> list[Any]:
    return [[field.name, list(field.shape), field.dtype] for field in layout.fields]


def _layout_back(plain: list[Any]) -> Layout:
    return Layout(tuple(Field(name, tuple(shape), dtype) for name, shape, dtype in plain))
