"""Makes an engine for each event, and stores one row through the same mapped class."""

from sqlalchemy import Column, Integer, String, create_engine
from sqlalchemy.ext.declarative import declarative_base
from sqlalchemy.orm import Session

Base = declarative_base()


class Order(Base):
    __tablename__ = "orders"
    id = Column(Integer, primary_key=True)
    text = Column(String)


def handler(event: object, context: object) -> int:
    engine = create_engine("sqlite://")
    Base.metadata.create_all(engine)
    session = Session(engine)
    session.add(Order(text="x" * 100))
    session.commit()
    found = session.query(Order).filter(Order.text != "").count()
    session.close()
    engine.dispose()
    return found
