"""Why a range is not inserted by an attempt although no server has refused it."""

from __future__ import annotations

from gauss.model.errors import Fenced


class TooLate(Fenced):
    """The lease may be another's now. What an attempt had in hand was not sent."""

    code = "too_late"


class OtherTopic(Fenced):
    """The topic was deleted and made anew: what was read may be of either."""

    code = "other_topic"

    @classmethod
    def of(cls, topic: str) -> OtherTopic:
        return cls(f"Kafka: the topic {topic} was deleted and made anew", hint="the new one is read from its beginning")
