"""Loggers of the shop's clients."""

import io
import logging


# PaddleHQ/paddle-python-sdk#144: a handler is added for each client
def client_logger(n, repaired):
    logger = logging.getLogger("shop.client")
    if not repaired or not logger.handlers:
        handler = logging.StreamHandler(io.StringIO(f"log of client {n}\n" * 60))  # LEAK null_logger
        handler.setLevel(logging.CRITICAL)
        logger.addHandler(handler)  # LEAK null_logger
    logger.info("client %d", n)
    return len(logger.handlers)


# DIRACGrid/DIRAC#5280: a logger's name with an order in it
def order_loggers(n, repaired):
    for part in ("cart", "payment", "mail", "stock"):
        name = f"shop.{part}" if repaired else f"shop.{part}.{n}"
        logging.getLogger(name).info("order %d", n)  # LEAK logger_names
    return len(logging.root.manager.loggerDict)
