"""Values <-> JSON: payloads, the record of a task, and the failures kept beside it.

``leaves`` and ``plain`` decide what a payload may be made of, ``payloads`` encodes and decodes it,
``records`` is the form in which a task lies in Redis.
"""

from __future__ import annotations

from django_redq.codec.payloads import decode_payload, find_undecodable
from django_redq.codec.records import (
    Record,
    build_task,
    decode_failures,
    decode_record,
    encode_body,
    encode_failures,
)

__all__ = [
    "Record",
    "build_task",
    "decode_failures",
    "decode_payload",
    "decode_record",
    "encode_body",
    "encode_failures",
    "find_undecodable",
]
